/** What the three offenders have in common: how one is described, run and judged. */
import { readdir, readFile } from 'node:fs/promises';
import type { Effective, ExecRequest, SandboxPort, SandboxSpec } from '@boxkite/protocol';

/** Layers that the weakened runner can leave out, one flag each. */
export type WeakenedLayer = 'mounts' | 'user' | 'proc' | 'net' | 'pids' | 'seccomp' | 'landlock' | 'caps' | 'memory';

/** One thing that a program tried, as seen from inside. */
export interface Attempt {
  /** What was tried, in words. */
  readonly what: string;
  /** Whether it reached what it must not reach. */
  readonly succeeded: boolean;
  /** What the kernel answered, or what was obtained. */
  readonly observed: string;
  /** Why even the twin can't show this attempt to succeed; absent where it must. */
  readonly alsoStoppedBy?: string | undefined;
}

/** What an offender needs of a sandbox; the twin's have nothing else. */
export type OffenderSandbox = Pick<SandboxPort, 'effective' | 'exec' | 'destroy'>;

/** Makes them. */
export interface OffenderProvider {
  create(spec: SandboxSpec, signal?: AbortSignal): Promise<OffenderSandbox>;
  close(): Promise<void>;
}

/** The outcome of one offender in one kind of sandbox. */
export interface Outcome {
  readonly attempts: readonly Attempt[];
  readonly effective: Effective;
  /** Processes of it that were alive after the sandbox was destroyed, counted from outside. */
  readonly leftAlive: number;
}

/** A program that misbehaves on purpose. */
export interface Offender {
  readonly title: string;
  /** What the twin leaves out, so that the same program succeeds. */
  readonly weakened: readonly WeakenedLayer[];
  readonly spec: SandboxSpec;
  /** A command of another sandbox that runs meanwhile, for something to look at. */
  readonly neighbour?: ExecRequest | undefined;
  /** What is in force against it, from what was measured. */
  readonly wall: (effective: Effective) => string;
  /** Runs it; the marker is among its arguments, so that its processes can be found from outside. */
  readonly run: (sandbox: OffenderSandbox, marker: string, signal: AbortSignal) => Promise<readonly Attempt[]>;
}

/** Runs an offender in a fresh sandbox and destroys that sandbox. */
export async function runOffender(
  provider: OffenderProvider,
  offender: Offender,
  marker: string,
  signal: AbortSignal,
): Promise<Outcome> {
  await using stack = new AsyncDisposableStack();
  if (offender.neighbour !== undefined) {
    const neighbour = await provider.create({}, signal);
    stack.defer(async () => await neighbour.destroy());
    await neighbour.exec(offender.neighbour, signal);
  }
  const sandbox = await provider.create(offender.spec, signal);
  stack.defer(async () => await sandbox.destroy());
  const attempts = await offender.run(sandbox, marker, signal);
  await stack.disposeAsync();
  return { attempts, effective: sandbox.effective, leftAlive: await countProcesses(marker) };
}

/** Number of live processes of this machine with the marker among their arguments. */
export async function countProcesses(marker: string): Promise<number> {
  let count = 0;
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue;
    if ((await commandLine(entry)).includes(marker)) count += 1;
  }
  return count;
}

async function commandLine(pid: string): Promise<string> {
  try {
    return await readFile(`/proc/${pid}/cmdline`, 'utf8');
  } catch (error) {
    // A process may end between the listing and the look.
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) return '';
    throw error;
  }
}
