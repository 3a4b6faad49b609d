import type { Socket } from 'node:net';
import { FileAgentDisconnectedError, FileAgentError, fileErrorCode } from './errors.ts';
import {
  decodeHeader,
  encodeFrame,
  encodeHeader,
  type FrameHeader,
  FrameMemory,
  frameTypes,
  headerBytes,
} from './frames.ts';
import { PayloadReader } from './payload.ts';

/** What a call does with the frames of its answer. A payload may be reused memory of the socket: it is not kept. */
export interface CallHandler {
  /** Attributes at the beginning of a stream. */
  meta?(payload: Uint8Array): void;
  /** A piece of a byte stream, of any length. */
  data?(piece: Buffer): void;
  /** A batch of records. */
  batch?(payload: Buffer): void;
  /** The agent takes this many bytes more. */
  grant?(bytes: number): void;
  /** The call succeeded. */
  end(payload: Buffer): void;
  /** The call failed, or the connection has gone. */
  fail(error: Error): void;
}

const discard: CallHandler = {
  end: () => undefined,
  fail: () => undefined,
};

/** Multiplexes calls over one connected socket. It owns the socket. */
export class FileConnection {
  readonly #socket: Socket;
  readonly #calls = new Map<number, CallHandler>();
  #lastId = 0;
  #closed: FileAgentDisconnectedError | undefined;
  /** A page fault for each of its pages is most of what a frame costs: one is kept. */
  #spare: FrameMemory | null = null;
  /** The bytes of a header or of a gathered payload that are there already. */
  #partial: Buffer = Buffer.alloc(0);
  /** The frame whose payload is being received. */
  #header: FrameHeader | undefined;
  /** Bytes of a DATA payload that are still to come; those are passed on as they arrive. */
  #streaming = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (cause) => this.#end(cause));
    socket.on('close', () => this.#end(undefined));
    // Alone where the socket allows half-open connections; an agent that sends no more answers nothing more.
    socket.on('end', () => this.close());
    // What has ended already tells of no end any more.
    if (socket.destroyed || socket.readableEnded) this.close();
  }

  /** Starts a call and returns its id. Throws when the connection has ended. */
  open(type: number, flags: number, payload: Uint8Array, handler: CallHandler): number {
    if (this.#closed !== undefined) throw this.#closed;
    do this.#lastId = this.#lastId >= 0xffff_ffff ? 1 : this.#lastId + 1;
    while (this.#calls.has(this.#lastId));
    const id = this.#lastId;
    this.#calls.set(id, handler);
    this.#socket.write(encodeFrame(type, flags, id, payload));
    return id;
  }

  /** Sends a frame of an open call; a call that has ended meanwhile ignores it. */
  send(id: number, type: number, payload: Uint8Array): void {
    if (this.#closed !== undefined || !this.#calls.has(id)) return;
    if (payload.length < 4096) {
      this.#socket.write(encodeFrame(type, 0, id, payload));
      return;
    }
    this.#socket.cork();
    this.#socket.write(encodeHeader({ length: payload.length, type, flags: 0, id }));
    this.#socket.write(payload);
    this.#socket.uncork();
  }

  /** Memory for frames of one call; whoever takes it gives it back when none of them is on its way any more. */
  takeFrame(): FrameMemory {
    const frame = this.#spare ?? new FrameMemory();
    this.#spare = null;
    return frame;
  }

  giveFrame(frame: FrameMemory): void {
    this.#spare = frame;
  }

  /** As `send`, from such memory. Resolves when the system has taken it, or never will. */
  sendFrame(id: number, type: number, memory: FrameMemory, length: number): Promise<void> {
    if (this.#closed !== undefined || !this.#calls.has(id)) return Promise.resolve();
    return new Promise((resolve) => {
      this.#socket.write(memory.frame(type, id, length), () => resolve());
    });
  }

  /** Cancels a call; what still arrives for it is dropped and its handler is not called again. */
  cancel(id: number): void {
    if (!this.#calls.has(id)) return;
    this.send(id, frameTypes.cancel, new Uint8Array());
    this.#calls.set(id, discard);
  }

  /** Ends the connection: the agent cancels all its calls. */
  close(): void {
    this.#socket.destroy();
    this.#end(undefined);
  }

  #end(cause: Error | undefined): void {
    if (this.#closed !== undefined) return;
    const options = cause === undefined ? undefined : { cause };
    this.#closed = new FileAgentDisconnectedError('the connection to the file agent has ended', options);
    const open = [...this.#calls.values()];
    this.#calls.clear();
    for (const handler of open) handler.fail(this.#closed);
  }

  #receive(chunk: Buffer): void {
    try {
      this.#parse(chunk);
    } catch (cause) {
      this.#socket.destroy();
      this.#end(cause instanceof Error ? cause : new Error(String(cause)));
    }
  }

  #parse(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0 && this.#closed === undefined) {
      if (this.#streaming > 0) rest = this.#stream(rest);
      else if (this.#header !== undefined) rest = this.#gather(rest, this.#header);
      else rest = this.#begin(rest);
    }
  }

  /** Reads a header; the payload of DATA is streamed, others are gathered. */
  #begin(chunk: Buffer): Buffer {
    let bytes = chunk;
    if (this.#partial.length > 0) bytes = Buffer.concat([this.#partial, chunk]);
    if (bytes.length < headerBytes) {
      this.#partial = Buffer.from(bytes);
      return Buffer.alloc(0);
    }
    this.#partial = Buffer.alloc(0);
    const header = decodeHeader(bytes);
    const rest = bytes.subarray(headerBytes);
    if (header.type !== frameTypes.data && rest.length >= header.length) {
      this.#dispatch(header, rest.subarray(0, header.length));
      return rest.subarray(header.length);
    }
    this.#header = header;
    this.#streaming = header.type === frameTypes.data ? header.length : 0;
    if (header.length === 0) this.#header = undefined;
    return rest;
  }

  #stream(chunk: Buffer): Buffer {
    const piece = chunk.subarray(0, this.#streaming);
    this.#streaming -= piece.length;
    const id = this.#header?.id ?? 0;
    if (this.#streaming === 0) this.#header = undefined;
    this.#calls.get(id)?.data?.(piece);
    return chunk.subarray(piece.length);
  }

  #gather(chunk: Buffer, header: FrameHeader): Buffer {
    const missing = header.length - this.#partial.length;
    this.#partial = Buffer.concat([this.#partial, chunk.subarray(0, missing)]);
    if (this.#partial.length === header.length) {
      const payload = this.#partial;
      this.#partial = Buffer.alloc(0);
      this.#header = undefined;
      this.#dispatch(header, payload);
    }
    return chunk.subarray(missing);
  }

  #dispatch(header: FrameHeader, payload: Buffer): void {
    if (header.type === frameTypes.error && header.id === 0) throw decodeError(payload);
    const handler = this.#calls.get(header.id);
    if (handler === undefined) throw new RangeError(`an answer to call ${header.id}, which is not open`);
    switch (header.type) {
      case frameTypes.meta:
        return handler.meta?.(payload);
      case frameTypes.batch:
        return handler.batch?.(payload);
      case frameTypes.grant:
        return handler.grant?.(new PayloadReader(payload).u32());
      case frameTypes.end:
        this.#calls.delete(header.id);
        return handler.end(payload);
      case frameTypes.error:
        this.#calls.delete(header.id);
        return handler.fail(decodeError(payload));
      default:
        throw new RangeError(`unknown frame type ${header.type}`);
    }
  }
}

/** Reads the payload of an ERROR frame. */
export function decodeError(payload: Uint8Array): FileAgentError {
  const reader = new PayloadReader(payload);
  return new FileAgentError(fileErrorCode(reader.u16()), reader.i32(), reader.bytes().toString());
}
