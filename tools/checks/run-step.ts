/** Runs one step of `make check` as a child process and says how it went. */
import { spawn } from 'node:child_process';

/** A program and what it is run for. */
export interface Step {
  readonly name: string;
  readonly command: readonly [program: string, ...args: string[]];
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** How a step ended; `output` is stdout and stderr as they arrived. */
export interface StepResult {
  readonly name: string;
  readonly ok: boolean;
  readonly seconds: number;
  readonly output: string;
}

/** Never rejects: a program that can't be started is a failed step with the reason as its output. */
export async function runStep(step: Step): Promise<StepResult> {
  const started = performance.now();
  const chunks: Buffer[] = [];
  const ok = await new Promise<boolean>((resolve) => {
    const [program, ...args] = step.command;
    const child = spawn(program, args, {
      cwd: step.cwd,
      env: { ...process.env, ...step.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', (error) => {
      chunks.push(Buffer.from(`${program} could not be started: ${error.message}\n`));
      resolve(false);
    });
    child.on('close', (code) => resolve(code === 0));
  });
  const seconds = (performance.now() - started) / 1000;
  return { name: step.name, ok, seconds, output: Buffer.concat(chunks).toString('utf8') };
}
