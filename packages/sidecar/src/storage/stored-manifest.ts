/** The manifest of one prefix as this process knows it, changed under its version. */
import { BoxkiteError } from '@boxkite/protocol';
import {
  type ManifestEntry,
  MOST_ENTRIES,
  type ObjectStore,
  readManifest,
  type StoredFile,
  writeManifest,
} from '@boxkite/storage';
import { announcedKey, manifestKey } from './layout.ts';

/** How often somebody else's change may come first. */
const MOST_ATTEMPTS = 8;

/** What is to be different. */
export interface Delta {
  readonly set: readonly ManifestEntry[];
  readonly remove: readonly string[];
}

/** Entries by their paths. */
export class StoredManifest {
  readonly #store: ObjectStore;
  readonly #prefix: string;
  #entries: Map<string, ManifestEntry>;
  #version: string | null;

  private constructor(store: ObjectStore, prefix: string, entries: Map<string, ManifestEntry>, version: string | null) {
    this.#store = store;
    this.#prefix = prefix;
    this.#entries = entries;
    this.#version = version;
  }

  /** Errors: `storage_unavailable`, `storage_damaged`. */
  static async load(store: ObjectStore, prefix: string, signal: AbortSignal): Promise<StoredManifest> {
    const manifest = new StoredManifest(store, prefix, new Map(), null);
    await manifest.#reload(signal);
    return manifest;
  }

  /** Whether the prefix has one. */
  get exists(): boolean {
    return this.#version !== null;
  }

  get entries(): ReadonlyMap<string, ManifestEntry> {
    return this.#entries;
  }

  get(path: string): ManifestEntry | undefined {
    return this.#entries.get(path);
  }

  /**
   * Resolves when the store has it. What another session of the same prefix has changed meanwhile stays, path by path.
   * Errors: those of the store; then this process knows nothing of the change either.
   */
  async apply(delta: Delta, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const entries = new Map(this.#entries);
      for (const path of delta.remove) entries.delete(path);
      for (const entry of delta.set) entries.set(entry.path, entry);
      if (entries.size > MOST_ENTRIES) {
        throw new BoxkiteError('storage_full', `a prefix has room for ${MOST_ENTRIES} files and directories`);
      }
      try {
        const put = await this.#put(manifestKey, entries, { ifVersion: this.#version }, signal);
        this.#entries = entries;
        this.#version = put.version;
        return;
      } catch (error) {
        const isBehind = error instanceof BoxkiteError && error.code === 'object_changed';
        if (!isBehind || attempt === MOST_ATTEMPTS) throw error;
        await this.#reload(signal);
      }
    }
  }

  /** Says before objects are replaced what they will be, so that an end in the middle leaves none that nobody knows. */
  async announce(files: readonly StoredFile[], signal: AbortSignal): Promise<void> {
    await this.#put(announcedKey, new Map(files.map((file) => [file.path, file])), {}, signal);
  }

  /** What was announced and may be there instead of what the manifest says. */
  async announced(signal: AbortSignal): Promise<ReadonlyMap<string, ManifestEntry>> {
    return (await this.#read(announcedKey, signal))?.entries ?? new Map<string, ManifestEntry>();
  }

  /** The manifest says it all. */
  async settle(signal: AbortSignal): Promise<void> {
    await this.#store.delete(this.#keyOf(announcedKey), signal);
  }

  async #reload(signal: AbortSignal): Promise<void> {
    const found = await this.#read(manifestKey, signal);
    this.#entries = found?.entries ?? new Map<string, ManifestEntry>();
    this.#version = found?.version ?? null;
  }

  async #read(name: string, signal: AbortSignal) {
    const found = await this.#store.get(this.#keyOf(name), signal);
    if (found === null) return null;
    return { entries: await readManifest(found.body), version: found.info.version };
  }

  #put(
    name: string,
    entries: ReadonlyMap<string, ManifestEntry>,
    options: { readonly ifVersion?: string | null },
    signal: AbortSignal,
  ) {
    return this.#store.put(this.#keyOf(name), writeManifest(entries), options, signal);
  }

  #keyOf(name: string): string {
    return `${this.#prefix}/${name}`;
  }
}
