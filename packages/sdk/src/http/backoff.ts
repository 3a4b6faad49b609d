/** Waiting before a call is sent again. */
import { BoxkiteError } from '@boxkite/protocol';

const FIRST_MS = 40;
const MOST_MS = 1000;

/** ms before the next attempt: twice as long each time, up to a second, and never the same for two clients. */
export function retryDelay(attempt: number): number {
  const most = Math.min(MOST_MS, FIRST_MS * 2 ** (attempt - 1));
  return most / 2 + (Math.random() * most) / 2;
}

/** Errors: `aborted`. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(new BoxkiteError('aborted', 'the call was cancelled', { cause: signal?.reason }));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Waits for what never fails, and no longer than `ms`. */
export async function within(ms: number, waited: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([waited, promise]);
  clearTimeout(timer);
}
