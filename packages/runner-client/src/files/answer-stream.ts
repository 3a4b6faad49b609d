import { abortReason, Credit, type Request } from './calls.ts';
import type { FileConnection } from './connection.ts';

/** The stream of a call's answer: META, then pieces, then the end. Leaving it early cancels the call. */
export class AnswerStream {
  readonly #connection: FileConnection;
  readonly #credit: Credit;
  readonly #signal: AbortSignal | undefined;
  readonly #pieces: Buffer[] = [];
  readonly #abort = () => this.#cancel();
  readonly #id: number;
  #meta: Buffer | undefined;
  #end: Buffer | undefined;
  #failure: { readonly error: unknown } | undefined;
  #waiting: PromiseWithResolvers<void> | undefined;

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

  /** Cancels the call unless it is over; whoever still waits for its answer is told so. */
  close(): void {
    this.#pieces.length = 0;
    if (this.#end === undefined && this.#failure === undefined) this.#cancel();
  }

  #push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#wake();
  }

  #cancel(): void {
    this.#failure = { error: abortReason(this.#signal) };
    this.#pieces.length = 0;
    this.#connection.cancel(this.#id);
    this.#finish();
  }

  #finish(): void {
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#wake();
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #wait(): Promise<void> {
    this.#waiting ??= Promise.withResolvers();
    return this.#waiting.promise;
  }

  #wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }
}

/**
 * What is made of an answer, to a call that is made already or with the first item. Leaving it cancels the call at once,
 * also while an item is awaited, which then rejects.
 */
export function itemsOf<T, R>(
  answer: AnswerStream | (() => AnswerStream),
  decode: (piece: Buffer) => Iterable<T>,
  decodeEnd: (end: Buffer) => R,
): AsyncGenerator<T, R> {
  let stream = typeof answer === 'function' ? undefined : answer;
  async function* items(): AsyncGenerator<T, R> {
    stream ??= (answer as () => AnswerStream)();
    try {
      for (let piece = await stream.next(); piece !== undefined; piece = await stream.next()) yield* decode(piece);
      return decodeEnd(stream.end);
    } finally {
      stream.close();
    }
  }
  const generator = items();
  const leave = generator.return.bind(generator);
  generator.return = (value) => {
    stream?.close();
    return leave(value);
  };
  return generator;
}
