/** A real object store whose puts wait or fail as a test says. */
import type {
  ObjectInfo,
  ObjectPage,
  ObjectSource,
  ObjectStore,
  PageOptions,
  PutOptions,
  ReadObject,
} from '@boxkite/storage';

/** Every call goes through unless `before` throws. */
export class FailingStore implements ObjectStore {
  readonly kind = 'fs';
  readonly #store: ObjectStore;
  /** Told of each call before it is made. */
  before: (call: 'put' | 'get' | 'head' | 'page' | 'delete', key: string) => Promise<void> | void = () => undefined;
  readonly puts: string[] = [];

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  async put(key: string, source: ObjectSource, options?: PutOptions, signal?: AbortSignal): Promise<ObjectInfo> {
    await this.before('put', key);
    const put = await this.#store.put(key, source, options, signal);
    this.puts.push(key);
    return put;
  }

  async get(key: string, signal?: AbortSignal): Promise<ReadObject | null> {
    await this.before('get', key);
    return this.#store.get(key, signal);
  }

  async head(key: string, signal?: AbortSignal): Promise<ObjectInfo | null> {
    await this.before('head', key);
    return this.#store.head(key, signal);
  }

  async page(prefix: string, options?: PageOptions, signal?: AbortSignal): Promise<ObjectPage> {
    await this.before('page', prefix);
    return this.#store.page(prefix, options, signal);
  }

  async delete(key: string, signal?: AbortSignal): Promise<void> {
    await this.before('delete', key);
    return this.#store.delete(key, signal);
  }
}
