/** One pass that makes a store have what the sandbox has: only what is stored as it is now counts as stored. */
import { setTimeout as delay } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { keyOfFile, type ManifestEntry, type StoredFile } from '@boxkite/storage';
import { placeOf, privateKeyOf, uploads } from './layout.ts';
import { forEachOf } from './parallel.ts';
import { isBelow, look, type Scan, type Seen, type Signature, signatureOf } from './scan.ts';
import type { StoredTree } from './stored-tree.ts';
import { Turn } from './turn.ts';

/** Files that are read or put at one time. */
const AT_ONCE = 16;
/** Attributes that are asked for at one time. */
const LOOKS_AT_ONCE = 64;
/** What a store that takes nothing says. */
const FATAL: ReadonlySet<string> = new Set(['storage_unavailable', 'storage_full', 'storage_damaged']);

/** What a file says that is another one than it was. */
const CHANGED: ReadonlySet<string> = new Set([
  'object_mismatch',
  'file_not_found',
  'not_a_file',
  'is_directory',
  'not_a_directory',
]);

type SeenFile = Extract<Seen, { readonly type: 'file' }>;
type Candidate = readonly [path: string, seen: SeenFile];

/** Something that is not stored as it is now. */
export interface Pending {
  /** Absolute, in the sandbox. */
  readonly path: string;
  /** `changing`, `storage_full`, `storage_unavailable`, `permission_denied`, `missing` (the store has lost it), `file_too_large`, or another code. */
  readonly reason: string;
}

/** What a pass keeps to. */
export interface SyncLimits {
  /** How long files are to have been as they are. */
  readonly stableMs: number;
  /** Of all files together. */
  readonly bytes: number;
}

/** What a pass has to do, and did. */
export class SyncRun {
  readonly #tree: StoredTree;
  readonly #signal: AbortSignal;
  readonly #limits: SyncLimits;
  readonly #pending = new Map<string, string>();
  readonly #set: ManifestEntry[] = [];
  /** Files of the manifest in whose place is something else now. */
  readonly #displaced: ManifestEntry[] = [];
  /** What files were when they were read. */
  readonly #read = new Map<string, Signature>();
  #failure: BoxkiteError | null = null;

  constructor(tree: StoredTree, signal: AbortSignal, limits: SyncLimits) {
    this.#tree = tree;
    this.#signal = signal;
    this.#limits = limits;
  }

  /** By stored paths, why each is not stored. */
  get pending(): ReadonlyMap<string, string> {
    return this.#pending;
  }

  /** Why the store took no more; `null` where it took all. */
  get failure(): BoxkiteError | null {
    return this.#failure;
  }

  /**
   * Stores all of a scan. What the manifest has and `gone` says is not there any more is removed. Errors: those of a store
   * that has not even taken what an earlier pass had to say.
   */
  async store(scan: Pick<Scan, 'seen' | 'closed' | 'tooLong'>, gone: readonly string[]): Promise<void> {
    await this.#tree.catchUp(this.#signal);
    const candidates = await this.#compare(scan.seen);
    for (const directory of scan.closed) this.#pending.set(directory, 'permission_denied');
    for (const path of scan.tooLong) this.#pending.set(path, 'name_too_long');
    const files = await this.#hashed(await this.#stable(candidates));
    await this.#replace(files, gone);
  }

  /** Takes what needs no bytes at once; answers the files that have to be read. */
  async #compare(seen: ReadonlyMap<string, Seen>): Promise<readonly Candidate[]> {
    const candidates: Candidate[] = [];
    const turn = new Turn();
    let bytes = 0;
    for (const [path, now] of seen) {
      if (turn.isOver()) await turn.next();
      bytes += now.type === 'file' ? now.size : 0;
      if (now.type === 'file' && bytes > this.#limits.bytes) {
        // More than the sandbox has room for: holes, of which a store would keep every byte.
        bytes -= now.size;
        this.#pending.set(path, 'file_too_large');
        continue;
      }
      const stored = this.#tree.manifest.get(path);
      if (now.type !== 'file') this.#compareOther(path, now, stored);
      else if (stored?.type !== 'file' || this.#tree.signatures.get(path) !== now.signature)
        candidates.push([path, now]);
      else if (stored.mode !== now.mode) this.#set.push({ ...stored, mode: now.mode });
    }
    return candidates;
  }

  #compareOther(path: string, now: Exclude<Seen, SeenFile>, stored: ManifestEntry | undefined): void {
    if (stored?.type === 'file') this.#displaced.push(stored);
    if (now.type === 'directory') {
      if (stored?.type !== 'directory' || stored.mode !== now.mode) this.#set.push({ path, ...now });
    } else if (stored?.type !== 'link' || stored.target !== now.target) {
      this.#set.push({ path, ...now });
    }
  }

  /** One wait for all, no longer than the newest change asks for; what changes meanwhile is left for the next pass. */
  async #stable(candidates: readonly Candidate[]): Promise<readonly Candidate[]> {
    const { stableMs } = this.#limits;
    const newest = candidates.reduce((latest, [, { mtimeMs }]) => Math.max(latest, mtimeMs), 0);
    const wait = Math.min(stableMs, newest + stableMs - Date.now());
    if (wait <= 0) return candidates;
    await delay(wait, undefined, { signal: this.#signal });
    const stable: Candidate[] = [];
    await forEachOf(candidates, LOOKS_AT_ONCE, async ([path, before]) => {
      const now = await look(this.#tree.files, path, this.#signal);
      if (now?.type === 'file' && now.signature === before.signature) stable.push([path, now]);
      else if (now !== null) this.#pending.set(path, 'changing');
    });
    return stable;
  }

  /** The entries that the files are to have: of those that can be read and do not change while they are. */
  async #hashed(candidates: readonly Candidate[]): Promise<readonly StoredFile[]> {
    const files: StoredFile[] = [];
    await forEachOf(candidates, AT_ONCE, async ([path, { mode, signature }]) => {
      const { bytes, shown } = placeOf(path);
      const agent = this.#tree.files;
      const signal = this.#signal;
      try {
        const { sha256, size } = await agent.agent(shown, (client) => client.hash(bytes, { signal }), signal);
        const after = await agent.agent(shown, (client) => client.stat(bytes, { follow: false, signal }), signal);
        if (signatureOf(after) !== signature) {
          this.#pending.set(path, 'changing');
          return;
        }
        const key = privateKeyOf(this.#tree.prefix, path);
        const file: StoredFile = { path, type: 'file', mode, size, sha256, ...(key === undefined ? {} : { key }) };
        this.#read.set(path, signature);
        const stored = this.#tree.manifest.get(path);
        const isStored = stored?.type === 'file' && stored.sha256 === sha256 && stored.key === key;
        if (isStored && !this.#tree.lost.has(path)) this.#keep(file, stored);
        else files.push(file);
      } catch (error) {
        this.#leave(path, error);
      }
    });
    return files;
  }

  /** Its bytes are in the store already. */
  #keep(file: StoredFile, stored: StoredFile): void {
    if (stored.mode !== file.mode) this.#set.push(file);
    this.#confirm(file.path);
  }

  /** Announced first where something is replaced; the manifest after the bytes, removals after the manifest. */
  async #replace(files: readonly StoredFile[], gone: readonly string[]): Promise<void> {
    const { manifest } = this.#tree;
    const signal = this.#signal;
    try {
      const replaced = files.filter(({ path }) => manifest.get(path)?.type === 'file');
      if (replaced.length > 0) await manifest.announce(replaced, signal);
      await forEachOf(files, AT_ONCE, (file) => this.#put(file));
      const removed = gone.flatMap((path) => manifest.get(path) ?? []);
      const set = [...this.#set, ...this.#tree.unwritten.values()];
      if (set.length > 0 || removed.length > 0) await manifest.apply({ set, remove: gone }, signal);
      this.#tree.unwritten.clear();
      if (replaced.length > 0) await manifest.settle(signal);
      for (const { path } of files) if (!this.#pending.has(path)) this.#confirm(path);
      await this.#tree.removeObjects([...removed, ...this.#displaced], signal);
    } catch (error) {
      this.#fail(error);
      const paths = [...[...this.#set, ...files].map(({ path }) => path), ...gone];
      for (const path of paths) this.#pending.set(path, this.#failure?.code ?? 'io_error');
    }
  }

  /** Puts the very bytes that were announced, or leaves the file for a later pass. */
  async #put(file: StoredFile): Promise<void> {
    if (this.#failure !== null) {
      this.#pending.set(file.path, this.#failure.code);
      return;
    }
    const { bytes, shown } = placeOf(file.path);
    const signal = this.#signal;
    const agent = this.#tree.files;
    const key = `${this.#tree.prefix}/${keyOfFile(file)}`;
    this.#tree.garbage.delete(key);
    const content = agent.agentStream(shown, (client) => client.read(bytes, { signal }), signal);
    try {
      await this.#tree.store.put(key, content, { sha256: file.sha256 }, signal);
      this.#tree.unwritten.set(file.path, file);
      const after = await look(agent, file.path, signal);
      const isSame = after?.type === 'file' && after.signature === this.#read.get(file.path);
      // Stored is what it was when it was read: the manifest says so, and the next pass stores what it is now.
      if (!isSame) this.#pending.set(file.path, 'changing');
    } catch (error) {
      this.#leave(file.path, error);
    }
  }

  #confirm(path: string): void {
    const signature = this.#read.get(path);
    if (signature !== undefined) this.#tree.signatures.set(path, signature);
    this.#tree.missing.delete(path);
    this.#tree.lost.delete(path);
  }

  /** A file that could not be stored; a store that takes nothing ends the pass. Errors: aborted ones. */
  #leave(path: string, error: unknown): void {
    this.#signal.throwIfAborted();
    if (!(error instanceof BoxkiteError)) throw error;
    if (FATAL.has(error.code)) this.#fail(error);
    // It has vanished: the next scan says that it is gone.
    else if (error.code === 'file_not_found' && this.#tree.manifest.get(path) === undefined) return;
    this.#pending.set(path, CHANGED.has(error.code) ? 'changing' : error.code);
  }

  #fail(error: unknown): void {
    this.#signal.throwIfAborted();
    if (!(error instanceof BoxkiteError)) throw error;
    this.#failure ??= error;
  }
}

/** Entries of the manifest that a whole scan says are gone. Uploads are for others to remove, and what is not known stays. */
export async function goneFrom(tree: StoredTree, scan: Scan): Promise<readonly string[]> {
  const gone: string[] = [];
  const unknown = [...scan.closed, ...scan.ignored];
  const kept = `${uploads.name}/`;
  const turn = new Turn();
  for (const path of tree.manifest.entries.keys()) {
    if (turn.isOver()) await turn.next();
    if (scan.seen.has(path) || tree.missing.has(path) || path.startsWith(kept) || path.startsWith(`\0${kept}`))
      continue;
    if (unknown.some((directory) => path === directory || isBelow(path, directory))) continue;
    gone.push(path);
  }
  return gone;
}
