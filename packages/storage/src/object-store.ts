/** The port between sessions and whatever keeps their files: a directory, a bucket, a container. */

/** Bytes of an object, whole or in parts. */
export type ObjectSource = Uint8Array | AsyncIterable<Uint8Array>;

/** An object as a store describes it. */
export interface ObjectInfo {
  readonly key: string;
  /** Bytes. */
  readonly size: number;
  /** Changes with every put of the key. Opaque. */
  readonly version: string;
  readonly modified_ms: number;
}

/** How an object is put. */
export interface PutOptions {
  /** Only where the key has this version now; `null`: only where it has no object. Errors: `object_changed`. */
  readonly ifVersion?: string | null | undefined;
  /** Hex. Bytes that have another SHA-256 are not kept. Errors: `object_mismatch`. */
  readonly sha256?: string | undefined;
}

/** Which objects a page lists. */
export interface PageOptions {
  /** Keys above it. */
  readonly after?: string | undefined;
  /** 1 to 1,000. Default 1,000. */
  readonly limit?: number | undefined;
}

/** One page of a listing, in byte order of the keys. */
export interface ObjectPage {
  readonly objects: readonly ObjectInfo[];
  /** What the next page comes after; `null` on the last one. */
  readonly next: string | null;
}

/** An object that is read. */
export interface ReadObject {
  readonly info: ObjectInfo;
  /** Its end lets go of the object, and so does leaving it once it was begun. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Lets go of the object, also where nothing of it was read. Idempotent. */
  close(): Promise<void>;
}

/**
 * Objects by key. Keys obey `checkKey`; errors of each call: `invalid_request` for one that does not,
 * `storage_unavailable`, and the reason of an aborted signal.
 */
export interface ObjectStore {
  /** What `/health` calls it, such as `fs`. */
  readonly kind: string;
  /**
   * Resolves when the object outlives everything but the store itself. It appears whole, in the place of what the key had;
   * a put that fails or is aborted changes nothing. Errors: `storage_full`, `object_changed`, `object_mismatch`.
   */
  put(key: string, source: ObjectSource, options?: PutOptions, signal?: AbortSignal): Promise<ObjectInfo>;
  /** Reads one version to its end, whatever is put meanwhile; `null` where there is none. */
  get(key: string, signal?: AbortSignal): Promise<ReadObject | null>;
  /** `null` where there is none. */
  head(key: string, signal?: AbortSignal): Promise<ObjectInfo | null>;
  /** Objects whose key begins with `prefix`, which is empty or ends with a slash. What changes meanwhile may be missed or not. */
  page(prefix: string, options?: PageOptions, signal?: AbortSignal): Promise<ObjectPage>;
  /** Resolves too where there is none. */
  delete(key: string, signal?: AbortSignal): Promise<void>;
}

/** All objects of a prefix, page by page. */
export async function* listObjects(
  store: ObjectStore,
  prefix: string,
  signal?: AbortSignal,
): AsyncGenerator<ObjectInfo, void, undefined> {
  let after: string | undefined;
  for (;;) {
    const { objects, next } = await store.page(prefix, { after }, signal);
    yield* objects;
    if (next === null) return;
    after = next;
  }
}
