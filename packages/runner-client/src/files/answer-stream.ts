import { abortReason, Credit, type Request } from './calls.ts';
import type { FileConnection } from './connection.ts';

/** The stream of a call's answer: META, then pieces, then the end. Leaving it early cancels the call. */
export class AnswerStream {
  readonly #connection: FileConnection;
  readonly #credit: Credit;
  readonly #signal: AbortSignal | undefined;
  readonly #pieces: Buffer[] = [];
  readonly #abort = () => this.#fail(abortReason(this.#signal));
  readonly #id: number;
  #meta: Buffer | undefined;
  #end: Buffer | undefined;
  #failure: { readonly error: unknown } | undefined;
  #waiter: (() => void) | undefined;

  constructor(connection: FileConnection, request: Request, signal: AbortSignal | undefined) {
    if (signal?.aborted === true) throw abortReason(signal);
    this.#connection = connection;
    this.#signal = signal;
    this.#id = connection.open(request.type, request.flags, request.payload, {
      meta: (payload) => {
        this.#meta = Buffer.from(payload);
        this.#wake();
      },
      data: (piece) => this.#push(piece),
      batch: (payload) => this.#push(payload),
      end: (payload) => {
        this.#end = Buffer.from(payload);
        this.#finish();
      },
      fail: (error) => {
        this.#failure ??= { error };
        this.#finish();
      },
    });
    this.#credit = new Credit(connection, () => this.#id);
    signal?.addEventListener('abort', this.#abort, { once: true });
  }

  /** The payload of META; waits for it. */
  async meta(): Promise<Buffer> {
    while (this.#meta === undefined) {
      this.#throwFailure();
      if (this.#end !== undefined) throw new RangeError('the file agent sent no META');
      await this.#wait();
    }
    return this.#meta;
  }

  /** The next piece, `undefined` at the end. */
  async next(): Promise<Buffer | undefined> {
    for (;;) {
      const piece = this.#pieces.shift();
      if (piece !== undefined) {
        this.#credit.consumed(piece.length);
        return piece;
      }
      this.#throwFailure();
      if (this.#end !== undefined) return undefined;
      await this.#wait();
    }
  }

  /** The payload of END, once all pieces were taken. */
  get end(): Buffer {
    if (this.#end === undefined) throw new RangeError('the stream has not ended');
    return this.#end;
  }

  /** Cancels the call unless it is over. */
  close(): void {
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#pieces.length = 0;
    this.#connection.cancel(this.#id);
  }

  #push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#wake();
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.close();
    this.#wake();
  }

  #finish(): void {
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#wake();
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  #wake(): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.();
  }
}
