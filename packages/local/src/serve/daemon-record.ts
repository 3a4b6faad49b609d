/** What a daemon is, as its launcher writes it down: the configuration of its Node, and what others find it by. */
import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { SandboxCeilings } from '@boxkite/protocol';
import type { ServicePlaces } from './places.ts';

/** One run of a daemon. Nothing in it is secret. */
export interface DaemonRecord {
  readonly version: string;
  /** Process id of the runner, which was that of `boxkite serve`. */
  readonly pid: number;
  /** When that process started, in clock ticks since the machine did: tells it from a later one with the same id. */
  readonly start_ticks: string;
  /** Of this run; 32 hexadecimal digits. */
  readonly instance: string;
  /** ISO 8601, UTC. */
  readonly started_at: string;
  readonly data: string;
  readonly runtime: string;
  /** Whether it has the usual data directory, by which programs of this user find it by themselves. */
  readonly usual: boolean;
  /** Of this run alone: this record, the runner's socket for Node, copies of the TLS pair. */
  readonly run: string;
  /** TCP addresses as `ADDR:PORT`, in the order of the inherited listeners, which follow the Unix socket. */
  readonly listen: readonly string[];
  /** Whether TCP listeners speak TLS, by `tls.crt` and `tls.key` in `run`. */
  readonly tls: boolean;
  /** Names of root file systems, in the order of the runner's `--root` list; the first is `host`. */
  readonly roots: readonly string[];
  /** Sandboxes at once. */
  readonly max_sandboxes: number;
  /** The operator's, of each sandbox. */
  readonly ceilings: SandboxCeilings;
  /** Where a detached daemon logs; else `null`. */
  readonly log: string | null;
}

/** Name of the record in the directory of a run. */
export const RECORD_NAME = 'daemon.json';
/** Name of the runner's socket for Node in the directory of a run. */
export const CLIENT_SOCKET = 'runner.sock';
const RUN_PREFIX = 'run-';
const MAX_RECORD_BYTES = 1024 * 1024;

/** The directory of the run of a process. */
export function runDirectory(runtime: string, pid: number): string {
  return join(runtime, `${RUN_PREFIX}${pid}`);
}

/** Reads a record. Errors: of the file system, and `SyntaxError` for one that is not whole. */
export function readRecord(path: string): DaemonRecord {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const found = fstatSync(file);
    if (!found.isFile() || found.size > MAX_RECORD_BYTES) throw new SyntaxError(`${path} is no record of a daemon`);
    const record: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (!isRecord(record)) throw new SyntaxError(`${path} is no record of a daemon`);
    return record;
  } finally {
    closeSync(file);
  }
}

/** Written by this package alone, whole or not at all, into a directory that nobody else can write. */
function isRecord(value: unknown): value is DaemonRecord {
  return typeof value === 'object' && value !== null && 'pid' in value && 'start_ticks' in value && 'instance' in value;
}

/** When a process started, in clock ticks since the machine did; `null` where there is none. */
export function startTicks(pid: number): string | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name before it is in parentheses and may hold spaces.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
  } catch {
    // It has ended.
    return null;
  }
}

/**
 * The process that is the daemon of these places: it holds the lock of the data directory or, where that was removed under
 * it, that of its own directory. `null` where nobody does. Another user's process is never taken for it.
 */
export function lockHolder(places: Pick<ServicePlaces, 'state' | 'runner'>): number | null {
  return holderOf(places.state, '--state') ?? holderOf(places.runner, '--dir');
}

function holderOf(directory: string, option: string): number | null {
  try {
    const { uid } = statSync(directory);
    const { ino } = statSync(join(directory, 'lock'));
    // The device that the kernel shows is not the one that `stat` does on every file system, so that it can't be compared.
    const held = readFileSync('/proc/locks', 'utf8')
      .split('\n')
      .map((line) => /^\d+: FLOCK +\S+ +WRITE (\d+) \S+:(\d+) /.exec(line))
      .filter((match) => match?.[2] === String(ino))
      .map((match) => Number(match?.[1]));
    return held.find((pid) => realUser(pid) === uid && wasGiven(pid, option, directory)) ?? null;
  } catch {
    // No lock file, no daemon.
    return null;
  }
}

/** Who started a process: whoever owns no directory may still lock a file of the same number and give the same words. */
function realUser(pid: number): number | null {
  try {
    const uid = /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return uid === undefined ? null : Number(uid);
  } catch {
    // It has ended.
    return null;
  }
}

/** Two file systems may number a file alike, so that the process has to be one that was given this directory. */
function wasGiven(pid: number, option: string, directory: string): boolean {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return args.some((word, at) => word === option && args[at + 1] === directory);
  } catch {
    return false;
  }
}

/** Directories of runs below the runtime directory, by the process that made each. */
export function runs(runtime: string): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  try {
    for (const name of readdirSync(runtime)) {
      const pid = Number(name.slice(RUN_PREFIX.length));
      if (name.startsWith(RUN_PREFIX) && Number.isSafeInteger(pid)) found.set(pid, join(runtime, name));
    }
  } catch {
    // Nothing ever ran here.
  }
  return found;
}

/** Whether the process that a record names still is that process. */
export function isAlive(record: Pick<DaemonRecord, 'pid' | 'start_ticks'>): boolean {
  return startTicks(record.pid) === record.start_ticks;
}

/** A daemon that runs. */
export interface RunningDaemon {
  readonly pid: number;
  /** `null` where it can't be read, which is no reason to start a second one. */
  readonly record: DaemonRecord | null;
}

/** The daemon of these places, with its record where that names the same process. */
export function findDaemon(places: ServicePlaces): RunningDaemon | null {
  const pid = lockHolder(places);
  if (pid === null) return null;
  try {
    const record = readRecord(join(runDirectory(places.runtime, pid), RECORD_NAME));
    return { pid, record: record.pid === pid && isAlive(record) ? record : null };
  } catch {
    return { pid, record: null };
  }
}
