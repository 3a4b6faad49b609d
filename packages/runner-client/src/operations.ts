/** Frames that the client sends, encoded: header and payload in one buffer. */
import { Buffer } from 'node:buffer';
import { FrameError, FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES, writeHeader } from './frames.ts';
import type { OpenRequest, ProgramPolicy, WorkspaceId } from './types.ts';

/** `Exec` of the protocol page, in its units. */
export interface ExecFields {
  readonly sandbox: bigint;
  /** 0 for none. */
  readonly timeoutMs: number;
  /** 0 for the sandbox's. */
  readonly memoryBytes: number;
  /** 0 for none. */
  readonly cpuMs: number;
  /** 0 for the sandbox's. */
  readonly pids: number;
  readonly columns: number;
  readonly rows: number;
  /** 0 `/dev/null`, 1 the inline bytes, 2 a later attach, 3 `/dev/null` and a channel. */
  readonly stdin: 0 | 1 | 2 | 3;
  readonly terminal: boolean;
  readonly block: boolean;
  readonly fresh: boolean;
  readonly cwd: string;
  readonly argv: EncodedStrings;
  readonly environment: EncodedStrings;
  readonly inline: Uint8Array;
}

/** A counted list of strings in its wire form, so that one that is used often is encoded once. */
export interface EncodedStrings {
  readonly count: number;
  readonly bytes: Buffer;
}

/** Of `Exec` before the directory. */
const EXEC_FIXED_BYTES = 44;

/** Encodes strings as `bytes` each, without their count. */
export function encodeStrings(strings: readonly string[]): EncodedStrings {
  let length = 4 * strings.length;
  for (const text of strings) length += Buffer.byteLength(text);
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (const text of strings) at = writeText(bytes, text, at);
  return { count: strings.length, bytes };
}

/** Writes a length and the UTF-8 of `text`; returns the offset after it. */
function writeText(into: Buffer, text: string, at: number): number {
  const written = into.write(text, at + 4);
  into.writeUInt32LE(written, at);
  return at + 4 + written;
}

function writeU64(into: Buffer, value: number, at: number): number {
  into.writeUInt32LE(value % 0x1_0000_0000, at);
  into.writeUInt32LE(Math.floor(value / 0x1_0000_0000), at + 4);
  return at + 8;
}

function frameOf(type: number, request: number, payloadBytes: number): Buffer {
  if (payloadBytes > MAX_PAYLOAD_BYTES) throw new FrameError('the request is longer than a frame may be');
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payloadBytes);
  writeHeader(frame, type, request);
  return frame;
}

/** 0x01. */
export function encodeOpen(request: number, open: OpenRequest): Buffer {
  const frame = frameOf(FrameType.openSandbox, request, 56);
  let at = writeU64(frame, open.memoryBytes, HEADER_BYTES);
  at = writeU64(frame, open.workspaceBytes, at);
  at = frame.writeUInt32LE(open.pids, at);
  at = frame.writeUInt32LE(open.cpuMillis, at);
  at = frame.writeUInt32LE(open.inodes, at);
  at = frame.writeUInt16LE(open.root, at);
  const flags =
    (open.fresh === true ? 1 : 0) | (open.requireMemory === true ? 2 : 0) | (open.requireCpu === true ? 4 : 0);
  at = frame.writeUInt16LE(flags, at);
  const disk = open.workspace?.kind === 'disk' ? open.workspace : null;
  frame.fill(0, at);
  frame.writeUInt8(disk === null ? 0 : disk.reopen ? 2 : 1, at);
  if (disk !== null) frame.set(disk.id, at + 8);
  return frame;
}

/** 0x02; with sandbox 0 it removes the workspace `id`. */
export function encodeClose(request: number, sandbox: bigint, keep: boolean, id: WorkspaceId | null): Buffer {
  const frame = frameOf(FrameType.closeSandbox, request, 32).fill(0, HEADER_BYTES);
  const at = frame.writeUInt8(keep ? 1 : 0, frame.writeBigUInt64LE(sandbox, HEADER_BYTES));
  if (id !== null) frame.set(id, at + 7);
  return frame;
}

/** 0x03. Throws `FrameError` where it is longer than a frame may be. */
export function encodeExec(request: number, exec: ExecFields): Buffer {
  const { argv, environment, inline } = exec;
  const length =
    EXEC_FIXED_BYTES + 16 + Buffer.byteLength(exec.cwd) + argv.bytes.length + environment.bytes.length + inline.length;
  const frame = frameOf(FrameType.exec, request, length);
  let at = frame.writeBigUInt64LE(exec.sandbox, HEADER_BYTES);
  at = writeU64(frame, exec.timeoutMs, at);
  at = writeU64(frame, exec.memoryBytes, at);
  at = writeU64(frame, exec.cpuMs, at);
  at = frame.writeUInt32LE(exec.pids, at);
  at = frame.writeUInt16LE(exec.columns, at);
  at = frame.writeUInt16LE(exec.rows, at);
  at = frame.writeUInt8(exec.stdin, at);
  at = frame.writeUInt8(exec.terminal ? 1 : 0, at);
  at = frame.writeUInt8(exec.block ? 1 : 0, at);
  at = frame.writeUInt8(exec.fresh ? 1 : 0, at);
  at = writeText(frame, exec.cwd, at);
  at = frame.writeUInt32LE(argv.count, at);
  at += argv.bytes.copy(frame, at);
  at = frame.writeUInt32LE(environment.count, at);
  at += environment.bytes.copy(frame, at);
  at = frame.writeUInt32LE(inline.length, at);
  frame.set(inline, at);
  return frame;
}

/** 0x04; `what` 0 becomes the consumer of the output, 1 makes the socket the standard input. */
export function encodeAttach(request: number, exec: bigint, what: 0 | 1): Buffer {
  const frame = frameOf(FrameType.attach, request, 9);
  frame.writeUInt8(what, frame.writeBigUInt64LE(exec, HEADER_BYTES));
  return frame;
}

/** 0x05; `target` 0 is the command's process group, 1 the whole envelope. */
export function encodeSignal(request: number, exec: bigint, signal: number, target: 0 | 1): Buffer {
  const frame = frameOf(FrameType.signal, request, 10);
  const at = frame.writeUInt8(signal, frame.writeBigUInt64LE(exec, HEADER_BYTES));
  frame.writeUInt8(target, at);
  return frame;
}

/** 0x06. */
export function encodeResize(request: number, exec: bigint, columns: number, rows: number): Buffer {
  const frame = frameOf(FrameType.resize, request, 12);
  const at = frame.writeUInt16LE(columns, frame.writeBigUInt64LE(exec, HEADER_BYTES));
  frame.writeUInt16LE(rows, at);
  return frame;
}

/** 0x07; `instance` 0 is the commands' view, 1 only uploads and skills, writable. */
export function encodeFile(request: number, sandbox: bigint, instance: 0 | 1): Buffer {
  const frame = frameOf(FrameType.file, request, 9);
  frame.writeUInt8(instance, frame.writeBigUInt64LE(sandbox, HEADER_BYTES));
  return frame;
}

/** 0x09. */
export function encodeList(request: number, usage: boolean): Buffer {
  const frame = frameOf(FrameType.list, request, 1);
  frame.writeUInt8(usage ? 1 : 0, HEADER_BYTES);
  return frame;
}

/** 0x0a. */
export function encodeProbe(request: number): Buffer {
  return frameOf(FrameType.probe, request, 0);
}

/** 0x0c; `null` for no list. */
export function encodePrograms(request: number, sandbox: bigint, policy: ProgramPolicy | null): Buffer {
  const { count, bytes } = encodeStrings(policy?.programs ?? []);
  const frame = frameOf(FrameType.programs, request, 20 + bytes.length).fill(0, HEADER_BYTES);
  frame.writeUInt8(policy === null ? 0 : 1, frame.writeBigUInt64LE(sandbox, HEADER_BYTES));
  bytes.copy(frame, frame.writeUInt32LE(count, HEADER_BYTES + 16));
  return frame;
}

/** Commits have no answer, so that all of them carry one request number, which no call gets. */
export const COMMIT_REQUEST = 0xffff_ffff;

/** 0x0b. */
export function encodeCommit(exec: bigint, stdout: number, stderr: number, end: boolean): Buffer {
  const frame = frameOf(FrameType.commit, COMMIT_REQUEST, 25);
  let at = frame.writeBigUInt64LE(exec, HEADER_BYTES);
  at = writeU64(frame, stdout, at);
  at = writeU64(frame, stderr, at);
  frame.writeUInt8(end ? 1 : 0, at);
  return frame;
}
