/** One use of a sandbox whose files are stored: passes follow each other, and none outlives the use. */
import { setTimeout as delay } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { byBytes, keyOfFile, listObjects, type ObjectStore } from '@boxkite/storage';
import type { SidecarSettings } from '../settings.ts';
import { namespaces, placeOf } from './layout.ts';
import { forEachOf } from './parallel.ts';
import type { Restored } from './restore.ts';
import { isBelow, look, type Scan, type Seen, type Signature, scanAll } from './scan.ts';
import type { FlushReport } from './session-storage.ts';
import { StoredManifest } from './stored-manifest.ts';
import { StoredTree } from './stored-tree.ts';
import { goneFrom, SyncRun } from './sync-run.ts';

const LOOKS_AT_ONCE = 64;
/** For a pass to end at its deadline. */
const SAYS_MORE_MS = 500;
const EMPTY: Scan = { seen: new Map(), other: [], closed: [], ignored: [], tooLong: [] };

/** What a use works with. */
export interface StorageUseParts {
  readonly store: ObjectStore;
  readonly prefix: string;
  readonly files: RunnerFiles;
  readonly settings: SidecarSettings['sync'];
  /** Of all files together: what the sandbox has room for. */
  readonly mostBytes: number;
  /** Stored paths that a restore has not found. */
  readonly missing: readonly string[];
}

/** See above. */
export class StorageUse {
  readonly prefix: string;
  readonly #parts: StorageUseParts;
  readonly #ended = new AbortController();
  #tree: StoredTree | null = null;
  /** The pass that runs, and the one that waits for it. */
  #running: Promise<unknown> = Promise.resolve();
  #waiting: Promise<FlushReport> | null = null;
  #pending: ReadonlyMap<string, string> = new Map();
  /** Directories that the last pass has not looked into. */
  #unknown: readonly string[] = [];
  /** Whether the last pass has seen all that is there. */
  #isScanned = false;
  #isChanged = false;
  #scannedAt = Date.now();
  readonly #timer: NodeJS.Timeout;

  /** `known`: what a restore has just found. */
  constructor(
    parts: StorageUseParts,
    known?: { readonly manifest: StoredManifest; readonly signatures: ReadonlyMap<string, Signature> },
  ) {
    this.prefix = parts.prefix;
    this.#parts = parts;
    if (known !== undefined) {
      this.#tree = new StoredTree({ ...parts, manifest: known.manifest });
      for (const [path, signature] of known.signatures) this.#tree.signatures.set(path, signature);
    }
    this.#timer = setInterval(() => void this.#tick(), parts.settings.flushSeconds * 1000);
    this.#timer.unref();
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Stored paths that the last pass has not stored as they were, with the reason of each. */
  get pending(): ReadonlyMap<string, string> {
    return this.#pending;
  }

  /** Stored paths that the store has lost. */
  get missing(): readonly string[] {
    return [...(this.#tree?.missing ?? this.#parts.missing)];
  }

  get hasManifest(): boolean {
    return this.#tree?.manifest.exists === true;
  }

  /** Keys below the prefix of files that the last pass has found stored as they are. */
  storedKeys(): readonly string[] {
    if (!this.#isScanned) return [];
    const keys: string[] = [];
    for (const entry of this.#tree?.manifest.entries.values() ?? []) {
      if (entry.type !== 'file' || this.#pending.has(entry.path)) continue;
      if (!this.#unknown.some((directory) => isBelow(entry.path, directory))) keys.push(keyOfFile(entry));
    }
    return keys.sort(byBytes);
  }

  /** Something was written. */
  changed(): void {
    this.#isChanged = true;
  }

  /** Nothing is stored any more. What is being put is put whole, under this prefix, or not at all. */
  end(reason: BoxkiteError): void {
    clearInterval(this.#timer);
    this.#ended.abort(reason);
  }

  /** Resolves when no pass runs any more, or after so many ms. */
  async settled(most: number): Promise<void> {
    await Promise.race([this.#running.catch(() => undefined), delay(most, undefined, { ref: false })]);
  }

  /** Takes files that were brought into the sandbox from below the prefix for stored. Errors: those of the store. */
  adopt({ files, changed }: Restored): Promise<void> {
    return this.#inTurn(async () => {
      const tree = await this.#opened(this.signal);
      const set = changed.filter((entry) => {
        const known = tree.manifest.get(entry.path);
        return entry.type === 'file' && (known?.type !== 'file' || known.sha256 !== entry.sha256);
      });
      if (set.length > 0) await tree.manifest.apply({ set, remove: [] }, this.signal);
      for (const [path, signature] of files) tree.signatures.set(path, signature);
    });
  }

  /** All that is there when it begins; calls that wait for their turn share one pass. */
  flush(deadline?: AbortSignal): Promise<FlushReport> {
    if (deadline !== undefined) return this.#flushUntil(deadline);
    this.#waiting ??= this.#inTurn(() => {
      this.#waiting = null;
      return this.#flush();
    });
    return this.#waiting;
  }

  /** Keys of those of the files that are stored as they are. Errors: `storage_unavailable`, `storage_full`. */
  present(paths: readonly string[]): Promise<ReadonlyMap<string, string>> {
    return this.#inTurn(async () => {
      const { signal } = this;
      const tree = await this.#opened(signal);
      const seen = new Map<string, Seen>();
      await forEachOf(new Set(paths), LOOKS_AT_ONCE, async (path) => {
        const found = await look(tree.files, path, signal);
        if (found?.type === 'file') seen.set(path, found);
      });
      // Whoever presents a file says that it is whole.
      const run = new SyncRun(tree, signal, { stableMs: 0, bytes: this.#parts.mostBytes });
      await run.store({ seen, closed: [], tooLong: [] }, []);
      if (run.failure !== null) throw run.failure;
      const keys = new Map<string, string>();
      for (const path of seen.keys()) {
        const entry = tree.manifest.get(path);
        if (entry?.type === 'file' && !run.pending.has(path)) keys.set(path, keyOfFile(entry));
      }
      return keys;
    });
  }

  /** Forgets what the store has not, so that the next pass stores it again. Answers whether there was any. */
  forgetLost(): Promise<boolean> {
    return this.#inTurn(async () => {
      const { store } = this.#parts;
      const tree = await this.#opened(this.signal);
      const sizes = new Map<string, number>();
      for await (const { key, size } of listObjects(store, `${this.prefix}/`, this.signal)) sizes.set(key, size);
      const lost = [...tree.manifest.entries.values()].filter(
        (entry) =>
          entry.type === 'file' &&
          !tree.missing.has(entry.path) &&
          sizes.get(`${this.prefix}/${keyOfFile(entry)}`) !== entry.size,
      );
      for (const { path } of lost) tree.forget(path);
      return lost.length > 0;
    });
  }

  /** Whatever has its turn before it: the answer comes at the deadline. */
  async #flushUntil(deadline: AbortSignal): Promise<FlushReport> {
    const late = Promise.withResolvers<FlushReport>();
    const stop = (): void => late.resolve(this.#report(EMPTY, false, 'timeout'));
    deadline.addEventListener('abort', stop, { once: true });
    const flushing = this.#inTurn(() => (deadline.aborted ? late.promise : this.#flush(deadline)));
    // One that works ends by the deadline as well, and says more.
    return await Promise.race([flushing, late.promise.then((report) => delay(SAYS_MORE_MS, report))]);
  }

  async #flush(deadline?: AbortSignal): Promise<FlushReport> {
    const signal = deadline === undefined ? this.signal : AbortSignal.any([this.signal, deadline]);
    this.#isChanged = false;
    this.#isScanned = false;
    let scan: Scan = EMPTY;
    let failure: string | null = null;
    try {
      scan = await scanAll(this.#parts.files, namespaces, new Set(this.#parts.settings.ignoredDirectories), signal);
      this.#scannedAt = Date.now();
      this.#unknown = [...scan.closed, ...scan.ignored];
      this.#isScanned = true;
      failure = await this.#store(scan, signal);
    } catch (error) {
      this.signal.throwIfAborted();
      failure = reasonOf(error, deadline);
      this.#pending = notStored(scan, this.#tree, failure);
    }
    const complete = failure === null && this.#pending.size === 0;
    // What has changed while it was read is not left to the long interval.
    this.#isChanged ||= !complete;
    return this.#report(scan, complete, failure);
  }

  /** Answers why the store took no more. */
  async #store(scan: Scan, signal: AbortSignal): Promise<string | null> {
    const tree = await this.#opened(signal);
    const run = new SyncRun(tree, signal, { stableMs: this.#parts.settings.stableMs, bytes: this.#parts.mostBytes });
    await run.store(scan, await goneFrom(tree, scan));
    this.#pending = new Map([...run.pending, ...[...tree.missing].map((path) => [path, 'missing'] as const)]);
    return run.failure?.code ?? null;
  }

  #report(scan: Scan, complete: boolean, failure: string | null): FlushReport {
    const shown = (path: string): string => placeOf(path).shown;
    return {
      storage_prefix: this.prefix,
      complete,
      pending: [...this.#pending].map(([path, reason]) => ({ path: shown(path), reason })),
      failure,
      skipped: scan.other.map(shown),
      ignored: scan.ignored.map(shown),
    };
  }

  /** The store's side of it; of an earlier process's use it is read when it is first needed. */
  async #opened(signal: AbortSignal): Promise<StoredTree> {
    const { store, prefix } = this.#parts;
    if (this.#tree === null) {
      const tree = new StoredTree({ ...this.#parts, manifest: await StoredManifest.load(store, prefix, signal) });
      await tree.recover(signal);
      this.#tree = tree;
    }
    return this.#tree;
  }

  #inTurn<T>(pass: () => Promise<T>): Promise<T> {
    const running = this.#running.then(() => {
      this.signal.throwIfAborted();
      return pass();
    });
    this.#running = running.catch(() => undefined);
    return running;
  }

  async #tick(): Promise<void> {
    const isDue = Date.now() - this.#scannedAt >= this.#parts.settings.reconcileSeconds * 1000;
    if (!this.#isChanged && !isDue) return;
    try {
      await this.flush();
    } catch {
      // The use has ended, or its files can't be read now: the next flush that somebody asks for says so.
      this.#isChanged = true;
    }
  }
}

/** Errors: those that say nothing of the store, of files or of time. */
function reasonOf(error: unknown, deadline: AbortSignal | undefined): string {
  if (deadline?.aborted === true) return 'timeout';
  if (error instanceof BoxkiteError) return error.code;
  throw error;
}

/** All that a pass that broke off has not stored for sure. */
function notStored(scan: Scan, tree: StoredTree | null, reason: string): ReadonlyMap<string, string> {
  const pending = new Map<string, string>();
  for (const [path, seen] of scan.seen) {
    const isStored =
      seen.type === 'file'
        ? tree?.signatures.get(path) === seen.signature && tree.manifest.get(path)?.type === 'file'
        : tree?.manifest.get(path)?.type === seen.type;
    if (!isStored) pending.set(path, reason);
  }
  for (const path of tree?.missing ?? []) pending.set(path, 'missing');
  return pending;
}
