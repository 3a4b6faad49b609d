/** What a prefix of a store has of a session's files: beside each file's bytes, all that a store does not keep of it. */
import { BoxkiteError } from '@boxkite/protocol';
import { isPathText, isStoredPath } from './stored-path.ts';

/** Keys below a prefix that are no file's: the manifest and its like. */
export const PRIVATE_SEGMENT = '.boxkite';

interface Place {
  /** Namespace, a slash and the path below its root, as `textOfPath` writes it. */
  readonly path: string;
}

/** A file: its bytes are the object `key` below the prefix. */
export interface StoredFile extends Place {
  readonly type: 'file';
  /** Nine permission bits. */
  readonly mode: number;
  readonly size: number;
  /** Hex. */
  readonly sha256: string;
  /** Default: the path. Of a path that can't be a key it is a name below `.boxkite`. */
  readonly key?: string;
}

/** A directory, also where it has something in it. */
export interface StoredDirectory extends Place {
  readonly type: 'directory';
  readonly mode: number;
}

/** A symbolic link; the target is as `textOfPath` writes it. */
export interface StoredLink extends Place {
  readonly type: 'link';
  readonly target: string;
}

/** One line of a manifest. */
export type ManifestEntry = StoredFile | StoredDirectory | StoredLink;

/** Entries of one prefix. */
export const MOST_ENTRIES = 1_000_000;
const MOST_LINE_BYTES = 64 * 1024;
const VERSION = 1;
/** Lines that are written or read between two looks at other work. */
const SLICE = 1000;
const PRIVATE_KEY = new RegExp(`^\\${PRIVATE_SEGMENT}/names/[0-9a-f]{64}$`);

/** The object that has a file's bytes, below the prefix. */
export function keyOfFile(file: StoredFile): string {
  return file.key ?? file.path;
}

/** The manifest as text: a line that says how many follow, and one JSON object a line for each entry. */
export async function* writeManifest(
  entries: ReadonlyMap<string, ManifestEntry>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let lines = `${JSON.stringify({ manifest: VERSION, entries: entries.size })}\n`;
  let count = 0;
  for (const entry of entries.values()) {
    lines += `${JSON.stringify(entry)}\n`;
    count += 1;
    if (count % SLICE > 0) continue;
    yield Buffer.from(lines);
    lines = '';
    await pause();
  }
  if (lines !== '') yield Buffer.from(lines);
}

/** Errors: `storage_damaged` for what `writeManifest` would not write. */
export async function readManifest(body: AsyncIterable<Uint8Array>): Promise<Map<string, ManifestEntry>> {
  const entries = new Map<string, ManifestEntry>();
  let announced: number | null = null;
  let count = 0;
  for await (const line of linesOf(body)) {
    if (announced === null) {
      announced = readHeader(line);
      continue;
    }
    const entry = readEntry(line);
    if (entries.has(entry.path)) throw damaged('a path is there twice');
    entries.set(entry.path, entry);
    count += 1;
    if (count > announced) throw damaged('it has more entries than it says');
    if (count % SLICE === 0) await pause();
  }
  if (count !== announced) throw damaged('it has fewer entries than it says');
  return entries;
}

async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  let rest = Buffer.alloc(0);
  for await (const part of body) {
    let bytes = rest.length === 0 ? Buffer.from(part) : Buffer.concat([rest, part]);
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10)) {
      if (end > MOST_LINE_BYTES) throw damaged('a line is too long');
      yield bytes.toString('utf8', 0, end);
      bytes = bytes.subarray(end + 1);
    }
    if (bytes.length > MOST_LINE_BYTES) throw damaged('a line is too long');
    rest = bytes;
  }
  if (rest.length > 0) throw damaged('its last line is cut');
}

function readHeader(line: string): number {
  const { manifest, entries } = parse(line);
  if (manifest !== VERSION) throw damaged('it is of another version');
  if (!isCount(entries) || entries > MOST_ENTRIES) throw damaged('its first line does not count the others');
  return entries;
}

function readEntry(line: string): ManifestEntry {
  const { path, type, mode, size, sha256, key, target } = parse(line);
  if (typeof path !== 'string' || !isStoredPath(path)) throw damaged('a path is none');
  if (type === 'link') {
    if (typeof target !== 'string' || !isPathText(target)) throw damaged('a link leads to no path');
    return { path, type, target };
  }
  if (!isCount(mode) || mode > 0o777) throw damaged('a mode is none');
  if (type === 'directory') return { path, type, mode };
  if (type !== 'file' || !isCount(size)) throw damaged('an entry is of no known type');
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) throw damaged('a SHA-256 is none');
  if (key === undefined) return { path, type, mode, size, sha256 };
  if (typeof key !== 'string' || !PRIVATE_KEY.test(key)) throw damaged('a key is none');
  return { path, type, mode, size, sha256, key };
}

function parse(line: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw damaged('a line is no JSON', cause);
  }
  if (typeof value !== 'object' || value === null) throw damaged('a line is no object');
  return { ...value };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function damaged(how: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('storage_damaged', `the manifest of the prefix can not be read: ${how}`, { cause });
}

function pause(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
