/** A store whose calls end when their signal says so, also where what is below hangs: nothing waits for a dead disk. */
import type {
  ObjectInfo,
  ObjectPage,
  ObjectSource,
  ObjectStore,
  PageOptions,
  PutOptions,
  ReadObject,
} from '@boxkite/storage';

/** See above. What a call that was left still does, it does under its own key. */
export class PromptStore implements ObjectStore {
  readonly #store: ObjectStore;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  get kind(): string {
    return this.#store.kind;
  }

  put(key: string, source: ObjectSource, options?: PutOptions, signal?: AbortSignal): Promise<ObjectInfo> {
    return orAborted(this.#store.put(key, source, options, signal), signal);
  }

  async get(key: string, signal?: AbortSignal): Promise<ReadObject | null> {
    const getting = this.#store.get(key, signal);
    try {
      return await orAborted(getting, signal);
    } catch (error) {
      // Where it comes later, nobody reads it.
      getting.then((found) => found?.close()).catch(() => undefined);
      throw error;
    }
  }

  head(key: string, signal?: AbortSignal): Promise<ObjectInfo | null> {
    return orAborted(this.#store.head(key, signal), signal);
  }

  page(prefix: string, options?: PageOptions, signal?: AbortSignal): Promise<ObjectPage> {
    return orAborted(this.#store.page(prefix, options, signal), signal);
  }

  delete(key: string, signal?: AbortSignal): Promise<void> {
    return orAborted(this.#store.delete(key, signal), signal);
  }
}

async function orAborted<T>(call: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return call;
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([call, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
