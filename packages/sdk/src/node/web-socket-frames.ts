/** Frames of RFC 6455: written by a client (masked), read from a server (never masked, no extension). */

/** What a frame is. */
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

const FIN = 0x80;
const MASKED = 0x80;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MAX_CONTROL_BYTES = 125;
/** Largest message that is taken; servers of output frames send far less. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/** A whole frame. */
export function frame(opcode: number, payload: Uint8Array, mask: Uint8Array): Uint8Array {
  const { length } = payload;
  const extended = length < LENGTH_16 ? 0 : length <= 0xffff ? 2 : 8;
  const bytes = new Uint8Array(2 + extended + 4 + length);
  const view = new DataView(bytes.buffer);
  bytes[0] = FIN | opcode;
  bytes[1] = MASKED | (extended === 0 ? length : extended === 2 ? LENGTH_16 : LENGTH_64);
  if (extended === 2) view.setUint16(2, length);
  if (extended === 8) view.setBigUint64(2, BigInt(length));
  bytes.set(mask, 2 + extended);
  const start = 6 + extended;
  for (let at = 0; at < length; at += 1) bytes[start + at] = (payload[at] ?? 0) ^ (mask[at & 3] ?? 0);
  return bytes;
}

/** A message of the server, or a control frame. */
export interface ReceivedFrame {
  readonly opcode: number;
  readonly payload: Uint8Array;
}

/** Takes bytes as they come and gives whole messages, put together from their fragments. Errors: `TypeError` for what no server may send. */
export class FrameReader {
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** Bytes without which nothing can be told: the pieces of a large frame are put together once. */
  #needed = 2;
  #opcode = 0;
  #fragments: Uint8Array[] = [];
  #length = 0;

  push(data: Uint8Array): readonly ReceivedFrame[] {
    this.#parts.push(data);
    this.#bytes += data.length;
    const found: ReceivedFrame[] = [];
    for (let next = this.#next(); next !== null; next = this.#next()) {
      const whole = this.#collect(next.first, next.payload);
      if (whole !== null) found.push(whole);
    }
    return found;
  }

  #wait(needed: number): null {
    this.#needed = needed;
    return null;
  }

  #next(): { readonly first: number; readonly payload: Uint8Array } | null {
    if (this.#bytes < this.#needed) return null;
    const [only] = this.#parts;
    const bytes = only !== undefined && this.#parts.length === 1 ? only : joined(this.#parts);
    this.#parts = [bytes];
    const [first = 0, second = 0] = bytes;
    if ((first & 0x70) !== 0) throw new TypeError('a frame uses an extension');
    if ((second & MASKED) !== 0) throw new TypeError('a frame of a server is masked');
    const short = second & 0x7f;
    const start = short === LENGTH_16 ? 4 : short === LENGTH_64 ? 10 : 2;
    if (bytes.length < start) return this.#wait(start);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const length = short === LENGTH_16 ? view.getUint16(2) : short === LENGTH_64 ? Number(view.getBigUint64(2)) : short;
    if (length > MAX_MESSAGE_BYTES) throw new TypeError('a frame is too large');
    if (bytes.length < start + length) return this.#wait(start + length);
    this.#parts = [bytes.subarray(start + length)];
    this.#bytes -= start + length;
    this.#needed = 2;
    return { first, payload: bytes.subarray(start, start + length) };
  }

  #collect(first: number, payload: Uint8Array): ReceivedFrame | null {
    const opcode = first & 0x0f;
    const final = (first & FIN) !== 0;
    if (opcode >= OPCODE.close) {
      if (!final || payload.length > MAX_CONTROL_BYTES) throw new TypeError('a control frame is too long');
      return { opcode, payload };
    }
    const begun = this.#fragments.length > 0;
    if ((opcode === OPCODE.continuation) !== begun) throw new TypeError('the fragments of a message are mixed up');
    if (!begun && final) return { opcode, payload };
    if (!begun) this.#opcode = opcode;
    this.#fragments.push(payload);
    this.#length += payload.length;
    if (this.#length > MAX_MESSAGE_BYTES) throw new TypeError('a message is too large');
    if (!final) return null;
    const whole = { opcode: this.#opcode, payload: joined(this.#fragments) };
    this.#fragments = [];
    this.#length = 0;
    return whole;
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
