/** What Node asks of the `supervise` process above it: to keep one blob per sandbox over a restart of Node. */
import { Buffer } from 'node:buffer';
import { Socket } from 'node:net';
import { BoxkiteError } from '@boxkite/protocol';
import { ControlReader, ControlType, controlFrame, KEY_BYTES, MAX_BLOB_BYTES } from './control-frames.ts';

/** Keeps opaque bytes in memory for as long as the runner lives. */
export interface BlobStore {
  /** Resolves when a restart of this process would find it. Errors: `capacity`, `state_unavailable`. */
  put(key: string, blob: Uint8Array): Promise<void>;
  /** Resolves too where there is none. Errors: `state_unavailable`. */
  delete(key: string): Promise<void>;
  /** Every blob by its key. Errors: `state_unavailable`. */
  list(): Promise<ReadonlyMap<string, Uint8Array>>;
}

/** A call that waits for its answer; answers come in the order of the calls. */
interface Waiting {
  readonly resolve: (blobs: ReadonlyMap<string, Uint8Array>) => void;
  readonly reject: (error: BoxkiteError) => void;
}

const NO_BLOBS: ReadonlyMap<string, Uint8Array> = new Map();

/** The control socket. A key is a UUID. */
export class SuperviseControl implements BlobStore {
  readonly #socket: Socket;
  readonly #reader = new ControlReader();
  readonly #waiting: Waiting[] = [];
  #blobs = new Map<string, Uint8Array>();
  #lost: BoxkiteError | null = null;
  readonly #ended = Promise.withResolvers<void>();

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error) => this.#end(error));
    socket.on('close', () => this.#end(undefined));
  }

  /** The control socket that `supervise` gave to this process as a descriptor. */
  static ofDescriptor(fd: number): SuperviseControl {
    return new SuperviseControl(new Socket({ fd, readable: true, writable: true }));
  }

  /** Resolves, never rejects, when the supervisor is gone. */
  get lost(): Promise<void> {
    return this.#ended.promise;
  }

  async put(key: string, blob: Uint8Array): Promise<void> {
    if (blob.length > MAX_BLOB_BYTES) {
      throw new BoxkiteError('capacity', `the state of a sandbox would have ${blob.length} bytes`, {
        hint: `Use fewer or shorter secrets: the state of one sandbox has room for ${MAX_BLOB_BYTES} bytes.`,
        details: { limit: MAX_BLOB_BYTES },
      });
    }
    await this.#call(controlFrame(ControlType.put, keyBytes(key), blob));
  }

  async delete(key: string): Promise<void> {
    await this.#call(controlFrame(ControlType.delete, keyBytes(key)));
  }

  list(): Promise<ReadonlyMap<string, Uint8Array>> {
    return this.#call(controlFrame(ControlType.list));
  }

  /** Says that this process serves, so that its next end is taken for an accident and not for a failure to start. */
  async ready(): Promise<void> {
    await this.#call(controlFrame(ControlType.ready));
  }

  #call(frame: Buffer): Promise<ReadonlyMap<string, Uint8Array>> {
    if (this.#lost !== null) return Promise.reject(this.#lost);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#socket.write(frame);
    });
  }

  #receive(chunk: Buffer): void {
    try {
      for (const { type, payload } of this.#reader.push(chunk)) this.#take(type, payload);
    } catch (error) {
      this.#end(error);
      this.#socket.destroy();
    }
  }

  #take(type: number, payload: Buffer): void {
    if (type === ControlType.blob) {
      if (payload.length < KEY_BYTES) throw new TypeError('the supervisor sent a blob without a key');
      // A copy: the buffer that it arrived in is much larger.
      this.#blobs.set(keyText(payload.subarray(0, KEY_BYTES)), Uint8Array.from(payload.subarray(KEY_BYTES)));
      return;
    }
    const waiting = this.#waiting.shift();
    if (waiting === undefined) throw new TypeError('the supervisor answered a call that nobody made');
    if (type === ControlType.refused) {
      waiting.reject(new BoxkiteError('capacity', `the supervisor keeps no more state: ${payload.toString('utf8')}`));
      return;
    }
    if (type !== ControlType.done) throw new TypeError(`the supervisor sent a frame of type ${type}`);
    const blobs = this.#blobs;
    this.#blobs = new Map();
    waiting.resolve(blobs.size === 0 ? NO_BLOBS : blobs);
  }

  #end(cause: unknown): void {
    if (this.#lost !== null) return;
    this.#lost = new BoxkiteError('state_unavailable', 'the supervisor of this process is gone', { cause });
    for (const { reject } of this.#waiting.splice(0)) reject(this.#lost);
    this.#ended.resolve();
  }
}

function keyBytes(key: string): Buffer {
  const bytes = Buffer.from(key.replaceAll('-', ''), 'hex');
  if (bytes.length !== KEY_BYTES) throw new TypeError('a key is a UUID');
  return bytes;
}

function keyText(bytes: Buffer): string {
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
