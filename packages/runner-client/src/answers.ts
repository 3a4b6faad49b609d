/** Payloads that the runner sends, decoded. Every decoder throws `FrameError` where the layout is broken. */
import type { Buffer } from 'node:buffer';
import type { Effective } from '@boxkite/protocol';
import { EFFECTIVE_BYTES, type EffectiveReader, readEffective } from './effective.ts';
import { FrameError, readCount, readOptionalCount, readStream } from './frames.ts';
import type {
  ListedExec,
  ListedSandbox,
  ListedUsage,
  OpenedSandbox,
  ProbeEntry,
  ProbeReport,
  ProgramsSet,
  RunnerListing,
  WorkspaceId,
} from './types.ts';

/** STARTED. */
export interface Started {
  readonly exec: bigint;
  readonly effective: Effective;
}

/** ATTACHED: from which offsets output is repeated. */
export interface Attached extends Started {
  readonly stdoutFrom: number;
  readonly stderrFrom: number;
}

/** A gap event. */
export interface Gap {
  readonly exec: bigint;
  readonly stream: 1 | 2;
  readonly from: number;
  readonly to: number;
}

/** `Ended` in the protocol's numbers. */
export interface Ended {
  readonly exec: bigint;
  readonly end: number;
  readonly cause: number;
  readonly retired: boolean;
  readonly exitCode: number;
  readonly signal: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly durationUs: number;
  readonly cpuUs: number | null;
  readonly memoryPeak: number | null;
}

/** ERROR. */
export interface RunnerFault {
  readonly code: number;
  readonly errno: number;
  readonly step: string;
  readonly detail: string;
}

function expectLength(payload: Buffer, length: number): void {
  if (payload.length !== length) throw new FrameError('a payload has another length than its type says');
}

/** OPENED. */
export function decodeOpened(payload: Buffer): OpenedSandbox {
  expectLength(payload, 8 + EFFECTIVE_BYTES);
  return { sandbox: payload.readBigUInt64LE(0), effective: readEffective(payload, 8) };
}

/** PROGRAMS_SET. */
export function decodeProgramsSet(payload: Buffer): ProgramsSet {
  if (payload.length < EFFECTIVE_BYTES) throw new FrameError('a payload ends early');
  const cursor = new Cursor(payload, EFFECTIVE_BYTES);
  const missing = Array.from({ length: cursor.u32() }, () => cursor.text());
  cursor.end();
  return { effective: readEffective(payload, 0), missing };
}

/** STARTED. */
export function decodeStarted(payload: Buffer, reader: EffectiveReader): Started {
  expectLength(payload, 8 + EFFECTIVE_BYTES);
  return { exec: payload.readBigUInt64LE(0), effective: reader.read(payload, 8) };
}

/** ATTACHED. */
export function decodeAttached(payload: Buffer): Attached {
  expectLength(payload, 24 + EFFECTIVE_BYTES);
  return {
    exec: payload.readBigUInt64LE(0),
    stdoutFrom: readCount(payload, 8),
    stderrFrom: readCount(payload, 16),
    effective: readEffective(payload, 24),
  };
}

/** The gap event. */
export function decodeGap(payload: Buffer): Gap {
  expectLength(payload, 32);
  const gap = {
    exec: payload.readBigUInt64LE(0),
    stream: readStream(payload, 8),
    from: readCount(payload, 16),
    to: readCount(payload, 24),
  };
  if (gap.to < gap.from) throw new FrameError('a gap ends before it begins');
  return gap;
}

/** The ended event. */
export function decodeEnded(payload: Buffer): Ended {
  expectLength(payload, 64);
  const end = payload.readUInt8(8);
  const cause = payload.readUInt8(9);
  const envelope = payload.readUInt8(10);
  if (end < 1 || end > 6 || cause > 4 || envelope > 1) throw new FrameError('an end that the protocol does not know');
  return {
    exec: payload.readBigUInt64LE(0),
    end,
    cause,
    retired: envelope === 1,
    exitCode: payload.readInt32LE(12),
    signal: payload.readUInt32LE(16),
    stdoutBytes: readCount(payload, 24),
    stderrBytes: readCount(payload, 32),
    durationUs: readCount(payload, 40),
    cpuUs: readOptionalCount(payload, 48),
    memoryPeak: readOptionalCount(payload, 56),
  };
}

const WORKSPACE_ID_BYTES = 16;
/** The `u32` that stands for "not measured". */
const NONE = 0xffff_ffff;

/** Reads values in order and never beyond the payload. */
class Cursor {
  readonly #from: Buffer;
  #at: number;

  constructor(from: Buffer, at = 0) {
    this.#from = from;
    this.#at = at;
  }

  #step(bytes: number): number {
    const at = this.#at;
    if (bytes > this.#from.length - at) throw new FrameError('a payload ends early');
    this.#at = at + bytes;
    return at;
  }

  u8(): number {
    return this.#from.readUInt8(this.#step(1));
  }

  u16(): number {
    return this.#from.readUInt16LE(this.#step(2));
  }

  u32(): number {
    return this.#from.readUInt32LE(this.#step(4));
  }

  i32(): number {
    return this.#from.readInt32LE(this.#step(4));
  }

  id(): bigint {
    return this.#from.readBigUInt64LE(this.#step(8));
  }

  count(): number {
    return readCount(this.#from, this.#step(8));
  }

  optionalCount(): number | null {
    return readOptionalCount(this.#from, this.#step(8));
  }

  workspace(): WorkspaceId {
    const at = this.#step(WORKSPACE_ID_BYTES);
    // A copy: a payload is only valid while it is decoded.
    return Uint8Array.from(this.#from.subarray(at, at + WORKSPACE_ID_BYTES));
  }

  text(): string {
    const length = this.u32();
    const at = this.#step(length);
    return this.#from.toString('utf8', at, at + length);
  }

  end(): void {
    if (this.#at !== this.#from.length) throw new FrameError('a payload is longer than its fields');
  }
}

/** ERROR. */
export function decodeError(payload: Buffer): RunnerFault {
  const cursor = new Cursor(payload);
  const code = cursor.u16();
  cursor.u16();
  const fault = { code, errno: cursor.i32(), step: cursor.text(), detail: cursor.text() };
  cursor.end();
  return fault;
}

const PROBE_MODES = { 1: 'root', 2: 'id_range', 3: 'one_id' } as const;
const PROBE_STATUS = { 0: 'missing', 1: 'works', 2: 'not_needed' } as const;
const EXEC_STATES = { 0: 'starting', 1: 'running', 2: 'ended' } as const;

function named<Names extends Readonly<Record<number, string>>>(
  names: Names,
  value: number,
): Names[keyof Names & number] {
  const name = names[value as keyof Names & number];
  if (name === undefined) throw new FrameError('a value that the protocol does not know');
  return name;
}

/** PROBED. */
export function decodeProbed(payload: Buffer): ProbeReport {
  const cursor = new Cursor(payload);
  const mode = named(PROBE_MODES, cursor.u8());
  const layers: ProbeEntry[] = [];
  for (let left = cursor.u32(); left > 0; left -= 1) {
    layers.push({ name: cursor.text(), status: named(PROBE_STATUS, cursor.u8()), detail: cursor.text() });
  }
  cursor.end();
  return { mode, layers };
}

/** LISTING. */
export function decodeListing(payload: Buffer): RunnerListing {
  const cursor = new Cursor(payload);
  const sandboxes: ListedSandbox[] = [];
  for (let left = cursor.u32(); left > 0; left -= 1) {
    sandboxes.push({
      sandbox: cursor.id(),
      envelopes: cursor.u32(),
      idle: cursor.u32(),
      closing: cursor.u8() !== 0,
      workspace: ofDisk(cursor.workspace()),
      usage: usage(cursor),
    });
  }
  const execs: ListedExec[] = [];
  for (let left = cursor.u32(); left > 0; left -= 1) {
    execs.push({
      exec_id: cursor.id().toString(),
      sandbox: cursor.id(),
      state: named(EXEC_STATES, cursor.u8()),
      attached: cursor.u8() !== 0,
      stdout: { committed: cursor.count(), produced: cursor.count() },
      stderr: { committed: cursor.count(), produced: cursor.count() },
    });
  }
  const workspaces: WorkspaceId[] = [];
  for (let left = cursor.u32(); left > 0; left -= 1) workspaces.push(cursor.workspace());
  cursor.end();
  return { sandboxes, execs, workspaces };
}

/** A tmpfs is listed as an id of zeros. */
function ofDisk(id: WorkspaceId): WorkspaceId | null {
  return id.some((byte) => byte !== 0) ? id : null;
}

function usage(cursor: Cursor): ListedUsage {
  const [memoryBytes, cpuUs, processes] = [cursor.optionalCount(), cursor.optionalCount(), cursor.u32()];
  return { memoryBytes, cpuUs, processes: processes === NONE ? null : processes };
}
