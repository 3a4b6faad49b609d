/**
 * Binary frames of an exec's output, the same in HTTP bodies (`application/vnd.boxkite.output`) and in WebSocket messages:
 * length u32 LE (of the payload) · type u8 · stream u8 · 2 × 0 · offset u64 LE · payload.
 */
import { BoxkiteError, type ErrorBody } from './errors.ts';
import type { ExecEvent, OutputStream } from './port.ts';
import { execRecordSchema } from './schemas.ts';
import { errorBody } from './v1.ts';

/** What a stream of frames says: events of the exec, signs of life, or the failure that ended the stream. */
export type OutputFrame =
  | ExecEvent
  | { readonly type: 'heartbeat' }
  | { readonly type: 'error'; readonly error: ErrorBody };

/** Bytes of a frame before its payload. */
export const outputFrameHeaderBytes = 16;
/** Largest payload of an output frame. */
export const maxOutputFrameBytes = 16 * 1024 * 1024;
/** Largest payload of every other frame. */
const MAX_TEXT_BYTES = 1024 * 1024;

const OUTPUT = 1;
const GAP = 2;
const ENDED = 3;
const HEARTBEAT = 4;
const ERROR = 5;
const GAP_BYTES = 8;
const HIGH = 2 ** 32;

const encoder = new TextEncoder();

/** The bytes of a frame in parts, of which the last one of an output frame is its data, uncopied. */
export function outputFrameParts(frame: OutputFrame): readonly Uint8Array[] {
  switch (frame.type) {
    case 'output':
      return [header(OUTPUT, streamNumber(frame.stream), frame.offset, frame.data.length), frame.data];
    case 'gap': {
      const whole = header(GAP, streamNumber(frame.stream), frame.from, GAP_BYTES, GAP_BYTES);
      writeOffset(new DataView(whole.buffer), outputFrameHeaderBytes, frame.to);
      return [whole];
    }
    case 'ended':
      return withText(ENDED, frame.record);
    case 'heartbeat':
      return [header(HEARTBEAT, 0, 0, 0)];
    case 'error':
      return withText(ERROR, frame.error);
    default:
      return frame satisfies never;
  }
}

/** The bytes of a frame in one piece. */
export function encodeOutputFrame(frame: OutputFrame): Uint8Array {
  const parts = outputFrameParts(frame);
  const [first, second] = parts;
  if (first !== undefined && second === undefined) return first;
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function withText(type: number, value: unknown): readonly Uint8Array[] {
  const payload = encoder.encode(JSON.stringify(value));
  return [header(type, 0, 0, payload.length), payload];
}

function header(type: number, stream: number, offset: number, length: number, room = 0): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(outputFrameHeaderBytes + room);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length, true);
  bytes[4] = type;
  bytes[5] = stream;
  writeOffset(view, 8, offset);
  return bytes;
}

function writeOffset(view: DataView, at: number, value: number): void {
  view.setUint32(at, value % HIGH, true);
  view.setUint32(at + 4, Math.floor(value / HIGH), true);
}

function streamNumber(stream: OutputStream): number {
  return stream === 'stdout' ? 1 : 2;
}

interface Head {
  readonly type: number;
  readonly stream: OutputStream | null;
  readonly offset: number;
  readonly length: number;
}

/**
 * Takes bytes as they come and gives the frames that are whole. Data of an output frame is given out as it comes, in
 * pieces with offsets of their own, so that nothing waits for the rest of a frame. Pieces are views of what was pushed.
 * Errors: `connection_lost` where the bytes are no frames; the decoder takes no more after that.
 */
export class OutputFrameDecoder {
  readonly #header = new Uint8Array(outputFrameHeaderBytes);
  #headerBytes = 0;
  #head: Head | null = null;
  /** Bytes of the payload that have come. */
  #taken = 0;
  #payload: Uint8Array | null = null;
  #broken = false;

  /** The frames that these bytes complete, and the data that they hold. */
  push(chunk: Uint8Array): readonly OutputFrame[] {
    if (this.#broken) throw malformed('the stream was no stream of frames before');
    const frames: OutputFrame[] = [];
    try {
      let rest = chunk;
      while (rest.length > 0) rest = this.#take(rest, frames);
    } catch (error) {
      this.#broken = true;
      throw error;
    }
    return frames;
  }

  /** To be called at the end of the stream. Errors: `connection_lost` where it ended within a frame. */
  end(): void {
    if (this.#head === null && this.#headerBytes === 0) return;
    throw malformed('the stream ended within a frame');
  }

  /** Takes from the front of the bytes and returns the rest. */
  #take(bytes: Uint8Array, frames: OutputFrame[]): Uint8Array {
    const head = this.#head;
    if (head === null) return this.#takeHeader(bytes, frames);
    const part = bytes.subarray(0, head.length - this.#taken);
    if (head.type === OUTPUT && head.stream !== null) {
      frames.push({ type: 'output', stream: head.stream, offset: head.offset + this.#taken, data: part });
    } else {
      this.#payload ??= new Uint8Array(head.length);
      this.#payload.set(part, this.#taken);
    }
    this.#taken += part.length;
    if (this.#taken === head.length) this.#complete(head, frames);
    return bytes.subarray(part.length);
  }

  #takeHeader(bytes: Uint8Array, frames: OutputFrame[]): Uint8Array {
    const part = bytes.subarray(0, outputFrameHeaderBytes - this.#headerBytes);
    this.#header.set(part, this.#headerBytes);
    this.#headerBytes += part.length;
    if (this.#headerBytes === outputFrameHeaderBytes) {
      const head = readHeader(this.#header);
      this.#head = head;
      this.#taken = 0;
      if (head.length === 0) this.#complete(head, frames);
    }
    return bytes.subarray(part.length);
  }

  #complete(head: Head, frames: OutputFrame[]): void {
    const payload = this.#payload ?? new Uint8Array();
    this.#head = null;
    this.#headerBytes = 0;
    this.#payload = null;
    if (head.type === GAP && head.stream !== null) {
      const to = readOffset(viewOf(payload), 0);
      if (to < head.offset) throw malformed('a gap ends before it begins');
      frames.push({ type: 'gap', stream: head.stream, from: head.offset, to });
    } else if (head.type === ENDED) {
      const record = execRecordSchema.safeParse(parsed(payload));
      if (!record.success) throw malformed('the end of an exec is no record');
      frames.push({ type: 'ended', record: record.data });
    } else if (head.type === ERROR) {
      const error = errorBody.safeParse(parsed(payload));
      if (!error.success) throw malformed('a failure is not of the shape of errors');
      frames.push({ type: 'error', error: error.data });
    } else if (head.type === HEARTBEAT) {
      frames.push({ type: 'heartbeat' });
    }
  }
}

function readHeader(bytes: Uint8Array): Head {
  const view = viewOf(bytes);
  const length = view.getUint32(0, true);
  const type = view.getUint8(4);
  const stream = readStream(type, view.getUint8(5));
  if (view.getUint16(6, true) !== 0) throw malformed('reserved bytes are not 0');
  const offset = readOffset(view, 8);
  if (type < OUTPUT || type > ERROR) throw malformed(`there is no frame of type ${type}`);
  const most =
    type === OUTPUT ? maxOutputFrameBytes : type === GAP ? GAP_BYTES : type === HEARTBEAT ? 0 : MAX_TEXT_BYTES;
  const least = type === GAP ? GAP_BYTES : type === ENDED || type === ERROR ? 1 : 0;
  if (length > most || length < least) throw malformed(`a frame of type ${type} has ${length} bytes`);
  return { type, stream, offset, length };
}

function readStream(type: number, number: number): OutputStream | null {
  if (type === OUTPUT || type === GAP) {
    if (number === 1) return 'stdout';
    if (number === 2) return 'stderr';
  } else if (number === 0) {
    return null;
  }
  throw malformed(`a frame of type ${type} is of stream ${number}`);
}

function readOffset(view: DataView, at: number): number {
  const value = view.getUint32(at, true) + view.getUint32(at + 4, true) * HIGH;
  if (!Number.isSafeInteger(value)) throw malformed('an offset is too large');
  return value;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function parsed(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
  } catch (error) {
    throw malformed('the payload of a frame is no JSON', error);
  }
}

function malformed(what: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('connection_lost', `not understood: ${what}`, {
    hint: 'Use a client and a server of versions that belong together.',
    cause,
  });
}
