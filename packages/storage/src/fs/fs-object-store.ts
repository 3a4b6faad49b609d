/** Objects as files of a private directory: the store that needs nothing but a disk. */
import { createHash, randomBytes } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { checkKey } from '../keys.ts';
import type {
  ObjectInfo,
  ObjectPage,
  ObjectSource,
  ObjectStore,
  PageOptions,
  PutOptions,
  ReadObject,
} from '../object-store.ts';
import { DirectorySyncs, makeDurably, placeDurably, removeDurably, removeStaged, writeAll } from './durable.ts';
import { isMissing, storeError } from './errors.ts';
import { objectPath } from './file-names.ts';
import { objectInfo, pageOf } from './listing.ts';

/** Places in the directory. Only what is whole gets into `objects`. */
const OBJECTS = 'objects';
const STAGING = 'staging';

const FILE_MODE = 0o600;
const READ_BYTES = 256 * 1024;

/** See `ObjectStore`. One process at a time uses the directory: `ifVersion` is decided in its memory. */
export class FsObjectStore implements ObjectStore {
  readonly kind = 'fs';
  readonly #objects: string;
  readonly #staging: string;
  readonly #syncs = new DirectorySyncs();
  /** The last change of each key that has not ended. */
  readonly #changing = new Map<string, Promise<unknown>>();

  private constructor(directory: string) {
    this.#objects = join(directory, OBJECTS);
    this.#staging = join(directory, STAGING);
  }

  /** Makes the directory where it is missing, and forgets what an earlier process has not finished. Errors: `storage_unavailable`. */
  static async open(directory: string): Promise<FsObjectStore> {
    const store = new FsObjectStore(directory);
    await storeError(async () => {
      await makeDurably(store.#objects, store.#syncs);
      await removeStaged(store.#staging);
      await makeDurably(store.#staging, store.#syncs);
    });
    return store;
  }

  async put(key: string, source: ObjectSource, options: PutOptions = {}, signal?: AbortSignal): Promise<ObjectInfo> {
    const path = join(this.#objects, objectPath(key));
    signal?.throwIfAborted();
    const staged = join(this.#staging, randomBytes(16).toString('hex'));
    try {
      const info = objectInfo(key, await this.#stage(staged, source, options.sha256, signal));
      return await this.#serially(key, async () => {
        await this.#checkVersion(key, options.ifVersion);
        signal?.throwIfAborted();
        await storeError(() => placeDurably(this.#objects, staged, path, this.#syncs));
        return info;
      });
    } catch (error) {
      await unlink(staged).catch(() => undefined);
      throw error;
    }
  }

  async get(key: string, signal?: AbortSignal): Promise<ReadObject | null> {
    const file = await this.#openObject(key);
    if (file === null) return null;
    try {
      const info = objectInfo(key, await storeError(() => file.stat({ bigint: true })));
      signal?.throwIfAborted();
      return { info, body: readAll(file, info.size, signal), close: () => file.close() };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async head(key: string, signal?: AbortSignal): Promise<ObjectInfo | null> {
    signal?.throwIfAborted();
    const file = await this.#openObject(key);
    if (file === null) return null;
    try {
      return objectInfo(key, await storeError(() => file.stat({ bigint: true })));
    } finally {
      await file.close();
    }
  }

  page(prefix: string, options: PageOptions = {}, signal?: AbortSignal): Promise<ObjectPage> {
    return storeError(() => pageOf(this.#objects, prefix, options, signal));
  }

  async delete(key: string, signal?: AbortSignal): Promise<void> {
    const relative = objectPath(key);
    signal?.throwIfAborted();
    await this.#serially(key, () =>
      storeError(() => removeDurably(this.#objects, join(this.#objects, relative), this.#syncs)),
    );
  }

  async #stage(
    path: string,
    source: ObjectSource,
    sha256: string | undefined,
    signal?: AbortSignal,
  ): Promise<BigIntStats> {
    const file = await storeError(() => open(path, 'wx', FILE_MODE));
    try {
      const hash = createHash('sha256');
      for await (const part of source instanceof Uint8Array ? [source] : source) {
        signal?.throwIfAborted();
        hash.update(part);
        await storeError(() => writeAll(file, part));
      }
      signal?.throwIfAborted();
      if (sha256 !== undefined && hash.digest('hex') !== sha256) {
        throw new BoxkiteError('object_mismatch', 'the bytes have another SHA-256 than was said');
      }
      // Getting its place changes nothing of what it is.
      return await storeError(async () => {
        await file.sync();
        return await file.stat({ bigint: true });
      });
    } finally {
      await file.close();
    }
  }

  async #checkVersion(key: string, wanted: string | null | undefined): Promise<void> {
    if (wanted === undefined) return;
    const present = (await this.head(key))?.version ?? null;
    if (present !== wanted) throw new BoxkiteError('object_changed', 'the object has another version by now');
  }

  /** Changes of one key follow each other. */
  async #serially<T>(key: string, change: () => Promise<T>): Promise<T> {
    const before = this.#changing.get(key) ?? Promise.resolve();
    const changing = before.then(change, change);
    this.#changing.set(key, changing);
    try {
      return await changing;
    } finally {
      if (this.#changing.get(key) === changing) this.#changing.delete(key);
    }
  }

  async #openObject(key: string): Promise<FileHandle | null> {
    checkKey(key);
    return await storeError(async () => {
      try {
        const path = join(this.#objects, objectPath(key));
        return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    });
  }
}

/** All of a file that nobody changes. */
async function* readAll(
  file: FileHandle,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (let at = 0; at < size; ) {
      signal?.throwIfAborted();
      // A buffer of its own for each part: a consumer may keep it.
      const buffer = Buffer.allocUnsafeSlow(Math.min(READ_BYTES, size - at));
      const { bytesRead } = await storeError(() => file.read(buffer, 0, buffer.length, at));
      if (bytesRead === 0) throw new BoxkiteError('storage_unavailable', 'an object is shorter than it was');
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
