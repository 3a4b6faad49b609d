/**
 * Frames of the runner's socket as bytes, for what a client that keeps to the protocol can't send. Written from
 * `docs/reference/runner-protocol.md` alone, so that it also checks the client's reading of that page.
 */
import type { Socket } from 'node:net';

/** A received frame. */
export interface RawFrame {
  readonly type: number;
  readonly request: number;
  readonly payload: Buffer;
}

/** Types of operations, answers and events that raw tests use. */
export const TYPE = {
  open: 0x01,
  close: 0x02,
  exec: 0x03,
  attach: 0x04,
  signal: 0x05,
  resize: 0x06,
  file: 0x07,
  list: 0x09,
  probe: 0x0a,
  commit: 0x0b,
  programs: 0x0c,
  done: 0x80,
  opened: 0x81,
  started: 0x83,
  attached: 0x84,
  listing: 0x89,
  output: 0xc1,
  gap: 0xc2,
  ended: 0xc3,
  error: 0xff,
} as const;

/** Length of a frame's header. */
export const HEADER = 12;

/** One frame. */
export function frame(type: number, request: number, payload: Uint8Array = new Uint8Array()): Buffer {
  const header = Buffer.alloc(HEADER);
  header.writeUInt32LE(payload.length, 0);
  header.writeUInt8(1, 4);
  header.writeUInt8(type, 5);
  header.writeUInt32LE(request, 8);
  return Buffer.concat([header, payload]);
}

function bytes(value: string | Uint8Array): Buffer {
  const data = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(data.length);
  return Buffer.concat([length, data]);
}

/** Payload of `open_sandbox` with small limits. */
export function openPayload(options: { readonly workspaceBytes?: bigint; readonly flags?: number } = {}): Buffer {
  const out = Buffer.alloc(56);
  out.writeBigUInt64LE(256n * 1_048_576n, 0);
  out.writeBigUInt64LE(options.workspaceBytes ?? 16n * 1_048_576n, 8);
  out.writeUInt32LE(64, 16);
  out.writeUInt32LE(0, 20);
  out.writeUInt32LE(1024, 24);
  out.writeUInt16LE(0, 28);
  out.writeUInt16LE(options.flags ?? 0, 30);
  return out;
}

/** Payload of `close_sandbox`. */
export function closePayload(sandbox: bigint, keep = false, workspace: Uint8Array = new Uint8Array(16)): Buffer {
  return Buffer.concat([u64(sandbox), Buffer.from([keep ? 1 : 0]), Buffer.alloc(7), workspace]);
}

/** Payload of `exec` without limits. */
export function execPayload(
  sandbox: bigint,
  argv: readonly string[],
  options: { readonly overflow?: 'drop' | 'block'; readonly stdin?: number; readonly timeoutMs?: bigint } = {},
): Buffer {
  const head = Buffer.alloc(48);
  head.writeBigUInt64LE(sandbox, 0);
  head.writeBigUInt64LE(options.timeoutMs ?? 0n, 8);
  head.writeUInt16LE(80, 36);
  head.writeUInt16LE(24, 38);
  head.writeUInt8(options.stdin ?? 0, 40);
  head.writeUInt8(0, 41);
  head.writeUInt8(options.overflow === 'block' ? 1 : 0, 42);
  head.writeUInt8(0, 43);
  const environment = ['PATH=/usr/bin:/bin'];
  const count = (value: number): Buffer => {
    const out = Buffer.alloc(4);
    out.writeUInt32LE(value);
    return out;
  };
  return Buffer.concat([
    head.subarray(0, 44),
    bytes('/workspace'),
    count(argv.length),
    ...argv.map(bytes),
    count(environment.length),
    ...environment.map(bytes),
    bytes(''),
  ]);
}

/** Payload of `commit`. */
export function commitPayload(exec: bigint, stdout: bigint, stderr: bigint, end: boolean): Buffer {
  const out = Buffer.alloc(25);
  out.writeBigUInt64LE(exec, 0);
  out.writeBigUInt64LE(stdout, 8);
  out.writeBigUInt64LE(stderr, 16);
  out.writeUInt8(end ? 1 : 0, 24);
  return out;
}

/** Payload of `programs`; `null` for no list. */
export function programsPayload(sandbox: bigint, names: readonly string[] | null): Buffer {
  const out = Buffer.alloc(20);
  out.writeBigUInt64LE(sandbox);
  out.writeUInt8(names === null ? 0 : 1, 8);
  out.writeUInt32LE(names?.length ?? 0, 16);
  return Buffer.concat([out, ...(names ?? []).map(bytes)]);
}

/** A number as the payload of `close_sandbox`. */
export function u64(value: bigint): Buffer {
  const out = Buffer.alloc(8);
  out.writeBigUInt64LE(value);
  return out;
}

/** Frames of a connection until it ends; an error of the socket counts as its end. */
export async function* frames(socket: Socket): AsyncGenerator<RawFrame, void> {
  const chunks: AsyncIterable<Buffer> = socket;
  let rest = Buffer.alloc(0);
  try {
    for await (const chunk of chunks) {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= HEADER) {
        const length = rest.readUInt32LE(0);
        if (rest.length < HEADER + length) break;
        yield {
          type: rest.readUInt8(5),
          request: rest.readUInt32LE(8),
          payload: rest.subarray(HEADER, HEADER + length),
        };
        rest = rest.subarray(HEADER + length);
      }
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'ECONNRESET' && code !== 'EPIPE' && code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
}
