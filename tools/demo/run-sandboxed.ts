/** Runs one program in a sandbox of its own. */
import type { Effective, ExecEvent, ExecHandle, ExecRecord, SandboxProvider, SandboxSpec } from '@boxkite/protocol';
import { hasPassed, type Program } from './program.ts';

/** What one program did in its sandbox; times in ms. */
export interface SandboxedRun {
  readonly taskId: string;
  readonly passed: boolean;
  /** Why it failed, in a few words; empty where it passed. */
  readonly failure: string;
  readonly createMs: number;
  /** From the exec call to its first output; the whole run where there was none. */
  readonly firstOutputMs: number;
  readonly destroyMs: number;
  readonly effective: Effective;
}

/** Output of an ended exec, as text, at most 1 MiB of each stream. */
export interface Collected {
  readonly record: ExecRecord;
  readonly stdout: string;
  readonly stderr: string;
  /** `performance.now()` at the first output. */
  readonly firstOutputAt: number | undefined;
}

const KEPT_BYTES = 1024 * 1024;

/** Python as the host has it: the sandbox's default root file system is the host's. */
export const PYTHON = '/usr/bin/python3';

/** A program that runs longer has failed. */
export const PROGRAM_TIMEOUT_MS = 30_000;

/** Creates a sandbox, writes the program into it, runs it by Python, and destroys the sandbox, whatever happened. */
export async function runSandboxed(
  provider: SandboxProvider,
  program: Program,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<SandboxedRun> {
  const start = performance.now();
  const sandbox = await provider.create(spec, signal);
  const created = performance.now();
  let collected: Collected;
  let called: number;
  let ended: number;
  try {
    await sandbox.files.write('program.py', program.source, undefined, signal);
    called = performance.now();
    const handle = await sandbox.exec(
      { argv: [PYTHON, ...program.pythonOptions, 'program.py'], timeout_ms: PROGRAM_TIMEOUT_MS },
      signal,
    );
    collected = await collect(handle);
  } finally {
    ended = performance.now();
    await sandbox.destroy();
  }
  const { record } = collected;
  const passed = record.end === 'exited' && hasPassed(program, record.exit_code, collected.stdout);
  return {
    taskId: program.taskId,
    passed,
    failure: passed ? '' : describeFailure(record, collected.stderr),
    createMs: created - start,
    firstOutputMs: (collected.firstOutputAt ?? ended) - called,
    destroyMs: performance.now() - ended,
    effective: record.effective,
  };
}

/** Reads an exec to its end. */
export async function collect(handle: ExecHandle, onOutput?: (text: string) => void): Promise<Collected> {
  const kept: Record<'stdout' | 'stderr', Uint8Array[]> = { stdout: [], stderr: [] };
  const sizes = { stdout: 0, stderr: 0 };
  let firstOutputAt: number | undefined;
  let record: ExecRecord | undefined;
  const take = (event: ExecEvent): void => {
    if (event.type === 'ended') record = event.record;
    if (event.type !== 'output') return;
    firstOutputAt ??= performance.now();
    if (sizes[event.stream] < KEPT_BYTES) kept[event.stream].push(event.data.slice());
    sizes[event.stream] += event.data.length;
    onOutput?.(Buffer.from(event.data).toString('utf8'));
  };
  for await (const event of handle) take(event);
  if (record === undefined) throw new TypeError('the events of an exec end with its record');
  return {
    record,
    stdout: Buffer.concat(kept.stdout).toString('utf8'),
    stderr: Buffer.concat(kept.stderr).toString('utf8'),
    firstOutputAt,
  };
}

function describeFailure(record: ExecRecord, stderr: string): string {
  const last = stderr.trimEnd().split('\n').at(-1) ?? '';
  if (record.end === 'timed_out') return `timed out after ${PROGRAM_TIMEOUT_MS / 1000} s`;
  if (record.end !== 'exited') return record.signal === null ? record.end : `${record.end} by ${record.signal}`;
  if (record.exit_code === 0) return 'ended with status 0 before its check came to the end';
  return last === '' ? `exit status ${record.exit_code}` : last;
}
