/** The only version of the file agent's protocol. */
export const protocolVersion = 1;
/** Bytes of a frame header. */
export const headerBytes = 12;
/** The largest payload of any frame, in bytes. */
export const maxPayload = (1 << 20) + (64 << 10);
/** The payload of the DATA frames that this client sends, in bytes. */
export const dataChunk = 256 << 10;
/** Stream bytes that the agent takes on a call before its first GRANT. */
export const initialGrant = 1 << 20;
/** Consumed stream bytes after which this client gives credit. */
export const creditStep = 1 << 20;

/** Frame types. Below 0x40: requests. 0x40 to 0x7f: from the client on an open call. From 0x80: answers. */
export const frameTypes = {
  stat: 0x01,
  read: 0x02,
  write: 0x03,
  list: 0x04,
  mkdir: 0x05,
  remove: 0x06,
  rename: 0x07,
  chmod: 0x08,
  symlink: 0x09,
  walk: 0x0a,
  search: 0x0b,
  watch: 0x0c,
  archiveIn: 0x0d,
  archiveOut: 0x0e,
  hash: 0x0f,
  sent: 0x40,
  commit: 0x41,
  credit: 0x42,
  cancel: 0x43,
  meta: 0x80,
  data: 0x81,
  batch: 0x82,
  grant: 0x83,
  end: 0x84,
  error: 0x85,
} as const;

/** The fields of a frame header; `length` is that of the payload in bytes. */
export interface FrameHeader {
  readonly length: number;
  readonly type: number;
  readonly flags: number;
  readonly id: number;
}

/** Reads the header at `offset`; throws a RangeError for another version or a payload above the limit. */
export function decodeHeader(bytes: Buffer, offset = 0): FrameHeader {
  const length = bytes.readUInt32LE(offset);
  const version = bytes[offset + 4];
  if (version !== protocolVersion) throw new RangeError(`unknown file agent protocol version ${version}`);
  if (length > maxPayload) throw new RangeError(`a frame of ${length} bytes is too long`);
  return {
    length,
    type: bytes[offset + 5] ?? 0,
    flags: bytes.readUInt16LE(offset + 6),
    id: bytes.readUInt32LE(offset + 8),
  };
}

/** The header's bytes. */
export function encodeHeader(header: FrameHeader): Buffer {
  const out = Buffer.allocUnsafe(headerBytes);
  writeHeader(out, header);
  return out;
}

function writeHeader(out: Buffer, header: FrameHeader): void {
  out.writeUInt32LE(header.length, 0);
  out[4] = protocolVersion;
  out[5] = header.type;
  out.writeUInt16LE(header.flags, 6);
  out.writeUInt32LE(header.id, 8);
}

/** Memory for a frame of `dataChunk` bytes, to be filled and sent again and again. */
export class FrameMemory {
  readonly #bytes = Buffer.allocUnsafeSlow(headerBytes + dataChunk);
  /** What a frame carries. */
  readonly payload: Uint8Array = this.#bytes.subarray(headerBytes);

  /** The frame with the first `length` bytes of `payload`, which must not change before it is out. */
  frame(type: number, id: number, length: number): Buffer {
    writeHeader(this.#bytes, { length, type, flags: 0, id });
    return this.#bytes.subarray(0, headerBytes + length);
  }
}

/** One whole frame. */
export function encodeFrame(type: number, flags: number, id: number, payload: Uint8Array): Buffer {
  const out = Buffer.allocUnsafe(headerBytes + payload.length);
  writeHeader(out, { length: payload.length, type, flags, id });
  out.set(payload, headerBytes);
  return out;
}
