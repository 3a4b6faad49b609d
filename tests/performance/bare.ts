/** The baselines' way to run a program: Node's own `child_process.spawn`. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { MissingPrerequisite } from './row.ts';

/** The file that both sides run. */
export const TRUE = '/usr/bin/true';

/** Runs a program with pipes for its output, as a sandbox's command has; resolves when it has ended and both are closed. */
export async function runBare(file: string, args: readonly string[] = []): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.resume();
    let complaint = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaint += text;
    });
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new TypeError(`${file} ended with ${code ?? signal}: ${complaint.trim()}`));
    });
  });
}

/** Throws MissingPrerequisite where a file is missing. */
export function need(path: string, hint: string): void {
  if (!existsSync(path)) throw new MissingPrerequisite(`${path} is missing`, hint);
}
