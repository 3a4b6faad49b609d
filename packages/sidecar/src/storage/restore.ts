/** Brings the files of a prefix back into an empty sandbox: each is what was stored, or is said to be missing. */
import { createHash } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import type { FileStat, RunnerFiles } from '@boxkite/runner-client';
import {
  bytesOfPath,
  isStoredPath,
  keyOfFile,
  listObjects,
  type ManifestEntry,
  type ObjectStore,
  type StoredDirectory,
  type StoredLink,
} from '@boxkite/storage';
import { byDepth, namespaceOf, namespaces, pathOfKey, placeOf, uploads } from './layout.ts';
import { forEachOf } from './parallel.ts';
import { type Signature, signatureOf } from './scan.ts';
import type { StoredManifest } from './stored-manifest.ts';

const AT_ONCE = 16;
/** What is written by one request: many small files are what most trees are. */
const SMALL_BYTES = 64 * 1024;
const NEW_MODE = 0o644;

/** What a restore works with. */
export interface RestoreParts {
  readonly store: ObjectStore;
  readonly prefix: string;
  /** As commands have them. */
  readonly files: RunnerFiles;
  /** Where uploads can be written. */
  readonly provision: RunnerFiles;
  readonly signal: AbortSignal;
}

/** What a restore has brought. */
export interface Restored {
  /** Stored paths of the files that are there now, with what tells a later change of each. */
  readonly files: ReadonlyMap<string, Signature>;
  /** Entries that differ from what the manifest said. */
  readonly changed: readonly ManifestEntry[];
  /** Stored paths of what the store did not have as it was stored. */
  readonly missing: readonly string[];
}

/** The bytes of a file that the store has; what they are to be, where that is known. */
interface Source {
  readonly path: string;
  /** Whole, with the prefix. */
  readonly key: string;
  readonly mode: number;
  /** Any of these, hex; `null`: whatever is there. */
  readonly sha256: readonly string[] | null;
}

/** Errors: of the store, and of the file agent where the sandbox has no room. */
export async function restore(parts: RestoreParts, manifest: StoredManifest): Promise<Restored> {
  const { signal } = parts;
  const announced = await manifest.announced(signal);
  const entries = [...manifest.entries.values()].filter(({ path }) => namespaceOf(path) !== null).sort(byDepth);
  const directories = entries.filter((entry): entry is StoredDirectory => entry.type === 'directory');
  const sources = [...sourcesOf(parts.prefix, entries, announced), ...(await foreignSources(parts, manifest))];
  const run = new Restoring(parts);
  for (const entry of directories) await run.makeDirectory(entry);
  await forEachOf(sources, AT_ONCE, (source) => run.bring(source, manifest.get(source.path)));
  for (const entry of entries) if (entry.type === 'link') await run.makeLink(entry);
  // The deepest first: one that is closed lets nobody in any more.
  for (const entry of directories.reverse()) await run.setMode(entry);
  return run;
}

/** Downloads what a store has of uploads, whoever has put it there. Answers the stored paths. */
export async function restoreUploads(parts: RestoreParts): Promise<Restored> {
  const run = new Restoring(parts);
  const sources: Source[] = [];
  for await (const source of foreign(parts, `${uploads.name}/`)) sources.push(source);
  await forEachOf(sources, AT_ONCE, (source) => run.bring(source, undefined));
  return run;
}

/** Downloads the objects right below another prefix into uploads. Answers the stored paths. */
export async function restoreLegacy(parts: RestoreParts, from: string): Promise<Restored> {
  const run = new Restoring(parts);
  for await (const { key } of listObjects(parts.store, from, parts.signal)) {
    const path = `${uploads.name}/${key.slice(from.length)}`;
    if (isStoredPath(path)) await run.bring({ path, key, mode: NEW_MODE, sha256: null }, undefined);
  }
  return run;
}

/** Files of commands: the manifest says what they are. Its uploads are taken from the store as they are there. */
function sourcesOf(
  prefix: string,
  entries: readonly ManifestEntry[],
  announced: ReadonlyMap<string, ManifestEntry>,
): readonly Source[] {
  return entries.flatMap((entry) => {
    if (entry.type !== 'file' || namespaceOf(entry.path) === uploads) return [];
    const next = announced.get(entry.path);
    const sha256 = next?.type === 'file' ? [entry.sha256, next.sha256] : [entry.sha256];
    return [{ path: entry.path, key: `${prefix}/${keyOfFile(entry)}`, mode: entry.mode, sha256 }];
  });
}

/** Files that others have put: uploads always, the rest only where nobody has written a manifest. */
async function foreignSources(parts: RestoreParts, manifest: StoredManifest): Promise<readonly Source[]> {
  const sources: Source[] = [];
  for (const space of namespaces) {
    if (space !== uploads && manifest.exists) continue;
    for await (const source of foreign(parts, `${space.name}/`)) sources.push(source);
  }
  return sources;
}

async function* foreign(
  { store, prefix, signal }: RestoreParts,
  below: string,
): AsyncGenerator<Source, void, undefined> {
  for await (const { key } of listObjects(store, `${prefix}/${below}`, signal)) {
    const path = pathOfKey(prefix, key);
    if (path !== null && isStoredPath(path)) yield { path, key, mode: NEW_MODE, sha256: null };
  }
}

class Restoring implements Restored {
  readonly files = new Map<string, Signature>();
  readonly changed: ManifestEntry[] = [];
  readonly missing: string[] = [];
  readonly #parts: RestoreParts;

  constructor(parts: RestoreParts) {
    this.#parts = parts;
  }

  /** Nothing is at the path unless all of the bytes were right. */
  async bring(source: Source, entry: ManifestEntry | undefined): Promise<void> {
    const { store, signal } = this.#parts;
    const found = await store.get(source.key, signal);
    if (found === null) {
      this.missing.push(source.path);
      return;
    }
    const checked = new Checked(found.body, source.sha256);
    const content = found.info.size <= SMALL_BYTES ? () => wholeOf(checked) : () => checked;
    let stat: FileStat | null;
    try {
      stat = await this.#write(source, content);
    } finally {
      await found.close();
    }
    if (stat === null) return;
    this.files.set(source.path, signatureOf(stat));
    const { path, mode } = source;
    if (entry?.type === 'file' && entry.sha256 === checked.sha256) return;
    const own = entry?.type === 'file' && entry.key !== undefined ? { key: entry.key } : {};
    this.changed.push({ path, type: 'file', mode, size: checked.size, sha256: checked.sha256, ...own });
  }

  async makeDirectory({ path }: StoredDirectory): Promise<void> {
    const { bytes, shown } = placeOf(path);
    const { signal } = this.#parts;
    await this.#orMissing(path, () =>
      this.#filesOf(path).agent(shown, (client) => client.mkdir(bytes, { parents: true, signal }), signal),
    );
  }

  async makeLink({ path, target }: StoredLink): Promise<void> {
    const { bytes, shown } = placeOf(path);
    const { signal } = this.#parts;
    await this.#orMissing(path, () =>
      this.#filesOf(path).agent(
        shown,
        (client) => client.symlink(bytesOfPath(target), bytes, { signal }),
        signal,
        'once',
      ),
    );
  }

  async setMode({ path, mode }: StoredDirectory): Promise<void> {
    const { bytes, shown } = placeOf(path);
    const { signal } = this.#parts;
    await this.#orMissing(path, () =>
      this.#filesOf(path).agent(shown, (client) => client.chmod(bytes, mode, { signal }), signal),
    );
  }

  async #write(source: Source, content: () => Checked | Promise<Uint8Array>): Promise<FileStat | null> {
    const { bytes, shown } = placeOf(source.path);
    const { signal } = this.#parts;
    const options = { mode: source.mode, createParents: true, replaceLink: true, signal };
    return await this.#orMissing(source.path, async () => {
      const data = await content();
      return this.#filesOf(source.path).agent(shown, (client) => client.write(bytes, data, options), signal, 'once');
    });
  }

  /** Paths that exclude each other, and bytes that are not what was stored, are the store's fault; the rest ends the restore. */
  async #orMissing<T>(path: string, call: () => Promise<T>): Promise<T | null> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof BoxkiteError) || !OF_THE_STORE.has(error.code)) throw error;
      this.missing.push(path);
      return null;
    }
  }

  #filesOf(path: string): RunnerFiles {
    return namespaceOf(path) === uploads ? this.#parts.provision : this.#parts.files;
  }
}

const OF_THE_STORE: ReadonlySet<string> = new Set([
  'object_mismatch',
  'file_exists',
  'is_directory',
  'not_a_directory',
  'not_a_file',
  'name_too_long',
]);

async function wholeOf(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  for await (const part of parts) all.push(part);
  return Buffer.concat(all);
}

/** Bytes that fail at their end where they are not what they are to be. */
class Checked implements AsyncIterable<Uint8Array> {
  size = 0;
  sha256 = '';
  readonly #body: AsyncIterable<Uint8Array>;
  readonly #wanted: readonly string[] | null;

  constructor(body: AsyncIterable<Uint8Array>, wanted: readonly string[] | null) {
    this.#body = body;
    this.#wanted = wanted;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    const hash = createHash('sha256');
    for await (const part of this.#body) {
      hash.update(part);
      this.size += part.length;
      yield part;
    }
    this.sha256 = hash.digest('hex');
    if (this.#wanted === null || this.#wanted.includes(this.sha256)) return;
    throw new BoxkiteError('object_mismatch', 'the store has other bytes than were stored');
  }
}
