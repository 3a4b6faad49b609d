import { Buffer } from 'node:buffer';

/** Version of the protocol in every header. */
export const PROTOCOL_VERSION = 1;
/** Bytes of a header. */
export const HEADER_BYTES = 12;
/** Most bytes of a payload. */
export const MAX_PAYLOAD_BYTES = 4 * 1024 * 1024;
/** Most bytes of output in one frame. */
export const MAX_OUTPUT_BYTES = 256 * 1024;
/** Bytes of an output or gap payload before its data. */
const EVENT_PREFIX_BYTES = 24;

/** Frame types of `docs/reference/runner-protocol.md`. */
export const FrameType = {
  openSandbox: 0x01,
  closeSandbox: 0x02,
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
  probed: 0x8a,
  programsSet: 0x8c,
  output: 0xc1,
  gap: 0xc2,
  ended: 0xc3,
  error: 0xff,
} as const;

/** A peer broke the layout of the protocol; the connection can't be used any more. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/** Where a `FrameReader` puts what it read; called synchronously, in order. */
export interface FrameSink {
  /** A whole frame that is not output. `payload` is only valid during the call. */
  frame(type: number, request: number, payload: Buffer): void;
  /** A part of an output frame: `data` is a view on the chunk that was pushed, never a copy. */
  output(exec: bigint, stream: 1 | 2, offset: number, data: Buffer): void;
}

/** Writes a header into the first 12 bytes of `frame`, whose length is that of the whole frame. */
export function writeHeader(frame: Buffer, type: number, request: number): void {
  frame.writeUInt32LE(frame.length - HEADER_BYTES, 0);
  frame[4] = PROTOCOL_VERSION;
  frame[5] = type;
  frame[6] = 0;
  frame[7] = 0;
  frame.writeUInt32LE(request, 8);
}

/** A u64 that counts or addresses bytes; beyond 2^53 it is a broken frame. */
export function readCount(from: Buffer, at: number): number {
  const value = from.readUInt32LE(at) + from.readUInt32LE(at + 4) * 0x1_0000_0000;
  if (value > Number.MAX_SAFE_INTEGER) throw new FrameError('a count is out of range');
  return value;
}

/** As `readCount`, with `null` for the protocol's `none`. */
export function readOptionalCount(from: Buffer, at: number): number | null {
  if (from.readUInt32LE(at) === 0xffff_ffff && from.readUInt32LE(at + 4) === 0xffff_ffff) return null;
  return readCount(from, at);
}

/** Stream and the seven zero bytes of an output or gap event at `at`. */
export function readStream(from: Buffer, at: number): 1 | 2 {
  const stream = from[at];
  const zeros = from.readUIntLE(at + 1, 6) === 0 && from[at + 7] === 0;
  if ((stream !== 1 && stream !== 2) || !zeros) throw new FrameError('an event names no stream');
  return stream;
}

type State = 'header' | 'prefix' | 'data' | 'payload';

/**
 * Cuts the chunks of a socket into frames. Bytes of output are handed on as views, as they arrive; other payloads are
 * copied only where a chunk border cuts them.
 */
export class FrameReader {
  readonly #sink: FrameSink;
  /** Holds a header or an output prefix that a chunk border cut. */
  readonly #small = Buffer.alloc(EVENT_PREFIX_BYTES);
  #state: State = 'header';
  /** Bytes already collected of what the state waits for. */
  #have = 0;
  #type = 0;
  #request = 0;
  /** Bytes of payload, in state `data` those still to come. */
  #length = 0;
  #payload: Buffer | null = null;
  #exec = 0n;
  #stream: 1 | 2 = 1;
  #offset = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Whether the bytes so far end between two frames. */
  get atBorder(): boolean {
    return this.#state === 'header' && this.#have === 0;
  }

  /** Takes the next bytes. Throws `FrameError` at a broken frame, after which nothing more may be pushed. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#state === 'header') at = this.#readHeader(chunk, at);
      else if (this.#state === 'data') at = this.#readData(chunk, at);
      else if (this.#state === 'prefix') at = this.#readPrefix(chunk, at);
      else at = this.#readPayload(chunk, at);
    }
  }

  #readHeader(chunk: Buffer, at: number): number {
    if (this.#have === 0 && chunk.length - at >= HEADER_BYTES) {
      this.#header(chunk, at);
      return at + HEADER_BYTES;
    }
    const end = this.#collect(this.#small, HEADER_BYTES, chunk, at);
    if (this.#have === HEADER_BYTES) this.#header(this.#small, 0);
    return end;
  }

  #header(from: Buffer, at: number): void {
    const length = from.readUInt32LE(at);
    if (length > MAX_PAYLOAD_BYTES) throw new FrameError('a payload is too long');
    if (from[at + 4] !== PROTOCOL_VERSION) throw new FrameError('another version of the protocol');
    if (from.readUInt16LE(at + 6) !== 0) throw new FrameError('reserved bits are set');
    this.#type = from[at + 5] ?? 0;
    this.#request = from.readUInt32LE(at + 8);
    this.#length = length;
    this.#have = 0;
    if (this.#type === FrameType.output) {
      if (this.#request !== 0) throw new FrameError('an event carries a request');
      if (length < EVENT_PREFIX_BYTES) throw new FrameError('an output event is too short');
      if (length > EVENT_PREFIX_BYTES + MAX_OUTPUT_BYTES) throw new FrameError('an output event is too long');
      this.#state = 'prefix';
    } else if (length === 0) {
      this.#finish(EMPTY);
    } else {
      this.#state = 'payload';
    }
  }

  #readPrefix(chunk: Buffer, at: number): number {
    if (this.#have === 0 && chunk.length - at >= EVENT_PREFIX_BYTES) {
      this.#prefix(chunk, at);
      return at + EVENT_PREFIX_BYTES;
    }
    const end = this.#collect(this.#small, EVENT_PREFIX_BYTES, chunk, at);
    if (this.#have === EVENT_PREFIX_BYTES) this.#prefix(this.#small, 0);
    return end;
  }

  #prefix(from: Buffer, at: number): void {
    this.#exec = from.readBigUInt64LE(at);
    this.#stream = readStream(from, at + 8);
    this.#offset = readCount(from, at + 16);
    this.#length -= EVENT_PREFIX_BYTES;
    this.#have = 0;
    if (this.#offset + this.#length > Number.MAX_SAFE_INTEGER) throw new FrameError('a count is out of range');
    this.#state = this.#length === 0 ? 'header' : 'data';
  }

  #readData(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#length);
    const offset = this.#offset;
    this.#offset += end - at;
    this.#length -= end - at;
    if (this.#length === 0) this.#state = 'header';
    this.#sink.output(
      this.#exec,
      this.#stream,
      offset,
      at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end),
    );
    return end;
  }

  #readPayload(chunk: Buffer, at: number): number {
    if (this.#payload === null) {
      const end = at + this.#length;
      if (end <= chunk.length) {
        this.#finish(chunk.subarray(at, end));
        return end;
      }
      this.#payload = Buffer.allocUnsafe(this.#length);
    }
    const payload = this.#payload;
    const end = this.#collect(payload, this.#length, chunk, at);
    if (this.#have === this.#length) {
      this.#payload = null;
      this.#finish(payload);
    }
    return end;
  }

  #finish(payload: Buffer): void {
    this.#state = 'header';
    this.#have = 0;
    this.#sink.frame(this.#type, this.#request, payload);
  }

  #collect(into: Buffer, want: number, chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + want - this.#have);
    chunk.copy(into, this.#have, at, end);
    this.#have += end - at;
    return end;
  }
}

const EMPTY = Buffer.alloc(0);
