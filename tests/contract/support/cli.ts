/** Runs the command line from source, as a user would. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..', '..', '..');
/** The program, from source. */
export const MAIN = join(ROOT, 'packages', 'cli', 'src', 'main.ts');
const PTY = join(import.meta.dirname, 'pty.py');

/** How a call of the command line ended. */
export interface CliOutcome {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** What a call gets besides its words. */
export interface CliOptions {
  /** Standard input; `null`: `/dev/null`. Default: a pipe that is closed at once. */
  readonly input?: string | Buffer | null;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Descriptor of standard output. Default: a pipe. */
  readonly stdout?: number;
}

/** Starts the command line with pipes. */
export function startCli(args: readonly string[], options: CliOptions = {}): ChildProcess {
  return spawn(process.execPath, [MAIN, ...args], {
    stdio: [options.input === null ? 'ignore' : 'pipe', options.stdout ?? 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
    cwd: options.cwd,
  });
}

/** Collects a started call to its end. */
export async function outcomeOf(child: ChildProcess): Promise<CliOutcome> {
  const chunks: Buffer[] = [];
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const [status, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, by) => resolve([code, by]));
  });
  return { status, signal, stdout: Buffer.concat(chunks), stderr };
}

/** What `doctor --json` prints, as far as tests look at it. */
export interface DoctorJson {
  readonly sandboxes: boolean;
  readonly mode: string | null;
  readonly lines: readonly {
    readonly name: string;
    readonly status: string;
    readonly means: string;
    readonly remedy: string | null;
  }[];
}

/** The findings of `boxkite doctor --machine --json`. */
export async function doctorReport(): Promise<DoctorJson> {
  const { stdout } = await cli(['doctor', '--machine', '--json']);
  return JSON.parse(stdout.toString()) as DoctorJson;
}

/** Runs the command line to its end. */
export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliOutcome> {
  const child = startCli(args, options);
  // A command that doesn't read its input closes the pipe under us.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(options.input ?? '');
  return outcomeOf(child);
}

/** One step at a terminal. */
export type TerminalStep =
  | { readonly expect: string }
  | { readonly send: string }
  | { readonly resize: readonly [number, number] }
  | { readonly signal: number };

/** How a call on a terminal ended. */
export interface TerminalOutcome {
  readonly output: string;
  /** Exit status, or the negative number of a signal. */
  readonly status: number;
  /** The modes of the terminal are what they were before. */
  readonly restored: boolean;
}

/** Runs the command line on a terminal of 90 by 30 and plays the steps at it. */
export function onTerminal(
  steps: readonly TerminalStep[],
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<TerminalOutcome> {
  return new Promise((resolve, reject) => {
    const words = [PTY, JSON.stringify(steps), process.execPath, MAIN, ...args];
    execFile(
      'python3',
      words,
      { encoding: 'utf8', env: { ...process.env, TERM: 'xterm', ...env } },
      (error, stdout, stderr) => {
        if (error !== null) reject(new Error(`${error.message}\n${stderr}`));
        else resolve(JSON.parse(stdout));
      },
    );
  });
}
