import { BoxkiteError } from '@boxkite/protocol';

/** How long a call may take, and who may end it. */
export interface WaitOptions {
  /** Aborting ends the call with the error `aborted`. */
  readonly signal?: AbortSignal | undefined;
  /** ms until the call ends with the error `timeout`. Default: none. */
  readonly timeout_ms?: number | undefined;
}

/** One signal for the caller's and for the deadline, and the error that a cancelled call then gets. */
export class Deadline {
  readonly signal: AbortSignal | undefined;
  readonly #timer: AbortSignal | undefined;

  constructor(options: WaitOptions) {
    const { signal, timeout_ms } = options;
    this.#timer = timeout_ms === undefined ? undefined : AbortSignal.timeout(checkedTimeout(timeout_ms));
    const both = [signal, this.#timer].filter((each) => each !== undefined);
    this.signal = both.length > 1 ? AbortSignal.any(both) : both[0];
  }

  /** A cancellation by the deadline is `timeout`, not `aborted`; every other error is itself. */
  explain(error: unknown): unknown {
    if (!(error instanceof BoxkiteError) || error.code !== 'aborted') return error;
    if (this.#timer === undefined || this.signal?.reason !== this.#timer.reason || !this.#timer.aborted) return error;
    return new BoxkiteError('timeout', 'the call reached its time limit and was cancelled', { cause: error });
  }

  async run<T>(call: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    try {
      return await call(this.signal);
    } catch (error) {
      throw this.explain(error);
    }
  }

  async *iterate<T>(call: (signal: AbortSignal | undefined) => AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    try {
      yield* call(this.signal);
    } catch (error) {
      throw this.explain(error);
    }
  }
}

/** Waits for what others may wait for too, and no longer than until the signal aborts. Errors: `aborted`. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const gone = Promise.withResolvers<never>();
  const abort = (): void =>
    gone.reject(new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason }));
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, gone.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** The longest time limit: a timer takes no more. */
export const maxTimeoutMs: number = 2 ** 31 - 1;

/** A timeout as a whole number of ms. Errors: `invalid_request`. */
export function checkedTimeout(value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= maxTimeoutMs) return Math.ceil(value);
  throw new BoxkiteError('invalid_request', `timeout_ms is to be a number above 0 and at most ${maxTimeoutMs}`, {
    hint: 'Leave it out for no time limit.',
    details: { field: 'timeout_ms' },
  });
}
