/** Frames between Node and `supervise` (docs/reference/supervise-protocol.md): length, type, three zero bytes, payload. */
import { Buffer } from 'node:buffer';

/** Types of frames. */
export const ControlType = { put: 1, delete: 2, list: 3, ready: 4, done: 0x80, blob: 0x81, refused: 0xff } as const;

/** Bytes of a key. */
export const KEY_BYTES = 16;
/** Bytes of one blob. */
export const MAX_BLOB_BYTES = 1024 * 1024;

const HEADER_BYTES = 8;
const MAX_PAYLOAD = KEY_BYTES + MAX_BLOB_BYTES;

/** One frame that arrived. */
export interface ControlFrame {
  readonly type: number;
  readonly payload: Buffer;
}

/** A frame of these parts. */
export function controlFrame(type: number, ...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(length, 0);
  header.writeUInt8(type, 4);
  return Buffer.concat([header, ...parts], HEADER_BYTES + length);
}

/** Puts chunks of a stream together to frames. */
export class ControlReader {
  #waiting: Buffer[] = [];
  #length = 0;

  /** The frames that `chunk` completes. Errors: `TypeError` for what is no frame. */
  push(chunk: Buffer): readonly ControlFrame[] {
    this.#waiting.push(chunk);
    this.#length += chunk.length;
    const frames: ControlFrame[] = [];
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) frames.push(frame);
    return frames;
  }

  #next(): ControlFrame | undefined {
    if (this.#length < HEADER_BYTES) return undefined;
    const [first] = this.#waiting;
    if (first === undefined || first.length < HEADER_BYTES) this.#join();
    const header = this.#waiting[0];
    if (header === undefined) return undefined;
    const length = header.readUInt32LE(0);
    if (length > MAX_PAYLOAD || header.readUIntLE(5, 3) !== 0) throw new TypeError('the supervisor sent no frame');
    // Joined once it is whole: a blob arrives in many chunks.
    if (this.#length < HEADER_BYTES + length) return undefined;
    const all = this.#join();
    const end = HEADER_BYTES + length;
    this.#waiting = end === all.length ? [] : [all.subarray(end)];
    this.#length -= end;
    return { type: all.readUInt8(4), payload: all.subarray(HEADER_BYTES, end) };
  }

  #join(): Buffer {
    const [only] = this.#waiting;
    const all = this.#waiting.length === 1 && only !== undefined ? only : Buffer.concat(this.#waiting, this.#length);
    this.#waiting = [all];
    return all;
  }
}
