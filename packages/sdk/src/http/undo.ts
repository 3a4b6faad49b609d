/** Cancelling a call that makes something: cutting its connection would leave what it made, with nobody who knows its id. */
import { BoxkiteError } from '@boxkite/protocol';
import { within } from './backoff.ts';

/** ms that a cancelled caller waits for what it no longer wants to be undone; after that it goes on behind it. */
const PATIENCE_MS = 1000;

/** Lets a call run to its end and undoes what it made where it was aborted meanwhile. Errors: `aborted`. */
export async function finishThenUndo<T>(
  make: () => Promise<T>,
  undo: (made: T) => Promise<void>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return make();
  if (signal.aborted) throw aborted(signal);
  const making = make();
  const gone = Promise.withResolvers<'aborted'>();
  const abort = (): void => gone.resolve('aborted');
  signal.addEventListener('abort', abort, { once: true });
  try {
    const first = await Promise.race([making, gone.promise]);
    if (!signal.aborted) return first as T;
  } finally {
    signal.removeEventListener('abort', abort);
  }
  // A call that failed has made nothing; one that can't be undone ends with the life of the sandbox.
  await within(
    PATIENCE_MS,
    making.then(undo).catch(() => undefined),
  );
  throw aborted(signal);
}

function aborted(signal: AbortSignal): BoxkiteError {
  return new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
}
