/** The files of one use of a sandbox and their prefix in the store: what is known of both. */
import { createHash } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { keyOfFile, type ManifestEntry, type ObjectStore, type StoredFile } from '@boxkite/storage';
import { forEachOf } from './parallel.ts';
import type { Signature } from './scan.ts';
import type { StoredManifest } from './stored-manifest.ts';

const AT_ONCE = 8;

/** See above. */
export class StoredTree {
  readonly store: ObjectStore;
  readonly prefix: string;
  readonly manifest: StoredManifest;
  /** Files that are stored as they were when they had this signature. */
  readonly signatures = new Map<string, Signature>();
  /** Entries of the manifest whose bytes the store did not have when they were to be restored: neither stored nor removed. */
  readonly missing: Set<string>;
  /** Files whose objects the store has not, although the manifest names them. */
  readonly lost = new Set<string>();
  /** Entries whose bytes are in the store, and that its manifest does not have yet. */
  readonly unwritten = new Map<string, ManifestEntry>();
  /** Objects that nothing names any more and that could not be removed yet. */
  readonly garbage = new Set<string>();
  /** Of the commands' view, which reads all that is stored. */
  readonly files: RunnerFiles;

  constructor(parts: {
    readonly store: ObjectStore;
    readonly prefix: string;
    readonly manifest: StoredManifest;
    readonly files: RunnerFiles;
    readonly missing: Iterable<string>;
  }) {
    this.store = parts.store;
    this.prefix = parts.prefix;
    this.manifest = parts.manifest;
    this.files = parts.files;
    this.missing = new Set(parts.missing);
  }

  /** The store has not what the manifest says: the next pass stores the file again, whatever is known of it. */
  forget(path: string): void {
    this.signatures.delete(path);
    this.lost.add(path);
  }

  /** Tells the manifest of what was put and not written down. Errors: those of the store. */
  async catchUp(signal: AbortSignal): Promise<void> {
    if (this.unwritten.size === 0) return;
    await this.manifest.apply({ set: [...this.unwritten.values()], remove: [] }, signal);
    this.unwritten.clear();
  }

  /** After a process that ended in the middle: looks which of the announced objects are there. Errors: those of the store. */
  async recover(signal: AbortSignal): Promise<void> {
    const announced = [...(await this.manifest.announced(signal)).values()];
    if (announced.length === 0) return;
    await forEachOf(announced, AT_ONCE, async (entry) => {
      const stored = this.manifest.get(entry.path);
      if (entry.type !== 'file' || stored?.type !== 'file') return;
      const sha256 = await this.#hashOf(entry, signal);
      if (sha256 === entry.sha256) this.unwritten.set(entry.path, entry);
      else if (sha256 !== stored.sha256) this.forget(entry.path);
    });
    await this.catchUp(signal);
    await this.manifest.settle(signal);
  }

  async #hashOf(file: StoredFile, signal: AbortSignal): Promise<string | null> {
    const found = await this.store.get(`${this.prefix}/${keyOfFile(file)}`, signal);
    if (found === null) return null;
    const hash = createHash('sha256');
    for await (const part of found.body) hash.update(part);
    return hash.digest('hex');
  }

  /** Removes what the manifest does not name any more; what the store does not remove now is removed by a later pass. */
  async removeObjects(entries: readonly ManifestEntry[], signal: AbortSignal): Promise<void> {
    for (const entry of entries) {
      this.signatures.delete(entry.path);
      if (entry.type === 'file') this.garbage.add(`${this.prefix}/${keyOfFile(entry)}`);
    }
    await forEachOf([...this.garbage], AT_ONCE, async (key) => {
      try {
        await this.store.delete(key, signal);
        this.garbage.delete(key);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof BoxkiteError)) throw error;
      }
    });
  }
}
