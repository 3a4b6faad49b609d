/** Runs programs inside a sandbox and collects what they say. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ExecEvent, ExecHandle, ExecRecord, ExecRequest, SandboxPort } from '@boxkite/protocol';
import { within } from './patience.ts';
import type { TestSandbox } from './runner.ts';

/** A finished program. */
export interface Outcome {
  readonly record: ExecRecord;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Buffer;
  readonly gaps: readonly Extract<ExecEvent, { type: 'gap' }>[];
}

/** What can run a program: a sandbox of the harness or of the product. */
export type Executor = Pick<SandboxPort, 'exec'>;

/** All of a request but the program: its input, limits, directory and so on. */
export type ProgramOptions = Omit<ExecRequest, 'argv'>;

const INSIDE = fileURLToPath(new URL('../inside/', import.meta.url));

/** Reads one exec to its end, checking that events come in order and that `ended` is last. */
export async function collect(handle: ExecHandle): Promise<Outcome> {
  const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const next = { stdout: 0, stderr: 0 };
  const gaps: Extract<ExecEvent, { type: 'gap' }>[] = [];
  let record: ExecRecord | undefined;
  for await (const event of handle) {
    if (record !== undefined) throw new Error(`an event of type ${event.type} came after the end`);
    if (event.type === 'ended') record = event.record;
    else if (event.type === 'gap') {
      if (event.from !== next[event.stream])
        throw new Error(`a gap from ${event.from} where ${next[event.stream]} was due`);
      next[event.stream] = event.to;
      gaps.push(event);
    } else {
      if (event.offset !== next[event.stream])
        throw new Error(`output at ${event.offset} where ${next[event.stream]} was due`);
      next[event.stream] += event.data.length;
      chunks[event.stream].push(Buffer.from(event.data));
    }
  }
  if (record === undefined) throw new Error('the events ended without an end');
  const stdoutBytes = Buffer.concat(chunks.stdout);
  return {
    record,
    stdout: stdoutBytes.toString('utf8'),
    stderr: Buffer.concat(chunks.stderr).toString('utf8'),
    stdoutBytes,
    gaps,
  };
}

/** Runs a program to its end. */
export async function run(sandbox: Executor, argv: readonly string[], options: ProgramOptions = {}): Promise<Outcome> {
  return collect(await sandbox.exec({ timeout_ms: within(60_000), ...options, argv }));
}

/** Runs a shell script to its end. */
export async function sh(sandbox: Executor, script: string, options: ProgramOptions = {}): Promise<Outcome> {
  return run(sandbox, ['/bin/sh', '-c', script], options);
}

/** Runs Python source to its end. */
export async function python(
  sandbox: Executor,
  source: string,
  options: ProgramOptions & { readonly args?: readonly string[] } = {},
): Promise<Outcome> {
  const { args = [], ...rest } = options;
  return run(sandbox, ['/usr/bin/python3', '-I', '-S', '-c', source, ...args], rest);
}

/** Runs Python source that prints one JSON document, and parses it. */
export async function pythonJson<T>(
  sandbox: Executor,
  source: string,
  options: ProgramOptions & { readonly args?: readonly string[] } = {},
): Promise<T> {
  const outcome = await python(sandbox, source, options);
  if (outcome.record.exit_code !== 0) {
    throw new Error(
      `the program inside failed: ${JSON.stringify({ ...outcome.record, effective: undefined })}\n${outcome.stderr}\n${outcome.stdout.slice(0, 2000)}`,
    );
  }
  return JSON.parse(outcome.stdout) as T;
}

/** Source of a program of `packages/testing/inside`. */
export function insideSource(name: string): string {
  return readFileSync(join(INSIDE, name), 'utf8');
}

/** Compiles a C program of `packages/testing/inside`, statically linked, and returns its bytes. */
export function compileInside(name: string): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'boxkite-cc-'));
  try {
    const output = join(directory, 'program');
    execFileSync('cc', ['-O1', '-static', '-Wall', '-Werror', '-o', output, join(INSIDE, name)], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    return readFileSync(output);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Puts an executable file into the sandbox's workspace and returns its path there. */
export async function install(sandbox: TestSandbox, name: string, bytes: Uint8Array): Promise<string> {
  const path = `/workspace/${name}`;
  await (await sandbox.agent()).write(path, bytes, { mode: 0o755 });
  return path;
}

/** Resolves after `ms`. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Waits until `check` holds, at most `timeoutMs` (longer where the machine is slow); fails with the last value it described.
 * A look that begins when the time is over decides: one that takes long says how things were when it began.
 */
export async function eventually(
  check: () => boolean | Promise<boolean>,
  timeoutMs: number,
  describe: () => string,
): Promise<void> {
  const most = within(timeoutMs);
  const deadline = performance.now() + most;
  for (let isLast = false; !(await check()); await sleep(20)) {
    if (isLast) throw new Error(`not within ${most} ms: ${describe()}`);
    isLast = performance.now() > deadline;
  }
}
