/** The notes of one sandbox at the supervisor: a blob of their own, since they may be as large as all of its state. */
import type { StateBlob } from '@boxkite/sidecar/app';
import type { BlobStore } from './supervise-control.ts';

/** Where the version is in a UUID. The ids of sandboxes are random ones, of version 4; 8 is for whoever needs one. */
const VERSION_AT = 14;
const NOTES_VERSION = '8';

/** Under which key the notes of a sandbox are kept. */
export function notesKey(id: string): string {
  return id.slice(0, VERSION_AT) + NOTES_VERSION + id.slice(VERSION_AT + 1);
}

/** Whether a key is of notes. */
export function isNotesKey(key: string): boolean {
  return key[VERSION_AT] === NOTES_VERSION;
}

/** See above. There is none at the supervisor until something was noted. */
export class NotesBlob implements StateBlob {
  readonly #blobs: BlobStore;
  readonly #key: string;
  #kept: Uint8Array | null;
  /** Whether the supervisor has one, or may have one soon. */
  #isThere: boolean;
  #removed = false;

  /** `found`: what an earlier process has left. */
  constructor(blobs: BlobStore, id: string, found: Uint8Array | null) {
    this.#blobs = blobs;
    this.#key = notesKey(id);
    this.#kept = found;
    this.#isThere = found !== null;
  }

  get(): Uint8Array | null {
    return this.#kept;
  }

  async put(blob: Uint8Array): Promise<void> {
    if (this.#removed) return;
    this.#isThere = true;
    await this.#blobs.put(this.#key, blob);
    if (!this.#removed) this.#kept = blob;
  }

  /** From now on nothing is kept, whoever still calls `put`. */
  async remove(): Promise<void> {
    this.#removed = true;
    this.#kept = null;
    if (this.#isThere) await this.#blobs.delete(this.#key);
  }
}
