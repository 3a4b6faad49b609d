import type { CallHandler, FileConnection } from './connection.ts';
import { creditStep, frameTypes } from './frames.ts';

/** What to ask the agent for. */
export interface Request {
  readonly type: number;
  readonly flags: number;
  readonly payload: Uint8Array;
}

/** A call with one answer. Aborting sends CANCEL and rejects with `abortReason`. */
export function ask(connection: FileConnection, request: Request, signal: AbortSignal | undefined): Promise<Buffer> {
  return withCall(connection, request, signal, () => ({}));
}

/** Why an aborted call failed: the signal's reason, or an `AbortError` around one that is no `Error`. */
export function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  if (reason instanceof Error) return reason;
  return Object.assign(new Error('the call was cancelled', { cause: reason }), { name: 'AbortError' });
}

/** Opens a call whose other frames go to `handlers`, and waits for its end. */
export function withCall(
  connection: FileConnection,
  request: Request,
  signal: AbortSignal | undefined,
  handlers: (id: () => number) => Omit<CallHandler, 'end' | 'fail'>,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) throw abortReason(signal);
    const settled = () => signal?.removeEventListener('abort', abort);
    let id = 0;
    const abort = () => {
      settled();
      connection.cancel(id);
      reject(abortReason(signal));
    };
    id = connection.open(request.type, request.flags, request.payload, {
      ...handlers(() => id),
      end: (payload) => {
        settled();
        resolve(payload);
      },
      fail: (error) => {
        settled();
        reject(error);
      },
    });
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Sends CREDIT for what was consumed, in steps, so that it costs little. */
export class Credit {
  readonly #connection: FileConnection;
  readonly #id: () => number;
  #consumed = 0;

  constructor(connection: FileConnection, id: () => number) {
    this.#connection = connection;
    this.#id = id;
  }

  consumed(bytes: number): void {
    this.#consumed += bytes;
    if (this.#consumed < creditStep) return;
    const payload = Buffer.allocUnsafe(4);
    payload.writeUInt32LE(this.#consumed);
    this.#consumed = 0;
    this.#connection.send(this.#id(), frameTypes.credit, payload);
  }
}
