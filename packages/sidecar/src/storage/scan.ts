/** What is in the sandbox now, as the file agent sees it: no link is followed. */
import { posix } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import type { FileEntry, FileStat, RunnerFiles } from '@boxkite/runner-client';
import { bytesOfPath, isStoredPath, textOfPath } from '@boxkite/storage';
import { type Namespace, placeOf, storedPath } from './layout.ts';
import { Turn } from './turn.ts';

/** What tells one state of a file from another without reading it. */
export type Signature = string;

/** Something that can be stored. */
export type Seen =
  | {
      readonly type: 'file';
      readonly mode: number;
      readonly size: number;
      readonly mtimeMs: number;
      readonly signature: Signature;
    }
  | { readonly type: 'directory'; readonly mode: number }
  | { readonly type: 'link'; readonly target: string };

/** All that was found, by stored paths. */
export interface Scan {
  readonly seen: ReadonlyMap<string, Seen>;
  /** Pipes, sockets and devices, which have no content. */
  readonly other: readonly string[];
  /** Directories that could not be looked into: what is below them is not known. */
  readonly closed: readonly string[];
  /** Directories that were left out by their names. */
  readonly ignored: readonly string[];
  /** Paths that no later call could name, the first of them. */
  readonly tooLong: readonly string[];
}

const MOST_TOO_LONG = 100;
/** Bytes of such paths until a tree is given up: each may be a hundred times as long as what it names. */
const MOST_TOO_LONG_BYTES = 256 * 1024 * 1024;

const OWNER_MAY_LIST = 0o500;
const SLASH = 0x2f;
/** No path within is too long. */
const MOST_NAME_BYTES = 255;

/** Errors: as of the file agent; then nothing is known. */
export async function scanAll(
  files: RunnerFiles,
  spaces: readonly Namespace[],
  ignoredNames: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Scan> {
  const found = new Found(ignoredNames);
  const turn = new Turn();
  for (const space of spaces) {
    const walking = files.agentStream(
      space.root,
      (client) => client.walk(space.root, { hidden: true, signal }),
      signal,
    );
    for await (const entry of walking) {
      if (turn.isOver()) await turn.next();
      found.take(space, entry);
    }
  }
  return found;
}

class Found implements Scan {
  readonly seen = new Map<string, Seen>();
  readonly other: string[] = [];
  readonly closed: string[] = [];
  readonly ignored: string[] = [];
  readonly tooLong: string[] = [];
  readonly #ignoredNames: ReadonlySet<string>;
  /** The ignored directory that the walk is in; it comes before all that is below it. */
  #leaving: string | null = null;
  #tooLongBytes = 0;

  constructor(ignoredNames: ReadonlySet<string>) {
    this.#ignoredNames = ignoredNames;
  }

  /** Entries come in the order of a walk. Errors: `capacity`. */
  take(space: Namespace, entry: FileEntry): void {
    if (this.#isTooLong(space, entry.bytes)) return;
    const path = storedPath(space, entry.bytes);
    if (this.#leaving !== null && isBelow(path, this.#leaving)) return;
    const isIgnored = entry.type === 'directory' && this.#ignoredNames.has(posix.basename(entry.path));
    this.#leaving = isIgnored ? path : null;
    if (isIgnored) this.ignored.push(path);
    else this.#add(path, entry);
  }

  #add(path: string, entry: FileEntry): void {
    const seen = seenOf(entry);
    if (seen === null) this.other.push(path);
    else this.seen.set(path, seen);
    if (entry.type === 'directory' && (entry.mode & OWNER_MAY_LIST) !== OWNER_MAY_LIST) this.closed.push(path);
  }

  /** Errors: `capacity` where a tree has nothing else. */
  #isTooLong(space: Namespace, relative: Uint8Array): boolean {
    if (relative.length < MOST_NAME_BYTES || isStoredPath(storedPath(space, relative))) return false;
    if (this.tooLong.length < MOST_TOO_LONG) this.tooLong.push(storedPath(space, relative));
    this.#tooLongBytes += relative.length;
    if (this.#tooLongBytes <= MOST_TOO_LONG_BYTES) return true;
    throw new BoxkiteError('capacity', `${space.root} has too many paths that are too long to be stored`, {
      hint: 'Remove the deep directories; paths have up to 4,095 bytes.',
    });
  }
}

/** Whether a stored path is below another one, by bytes: either may be no UTF-8. */
export function isBelow(path: string, directory: string): boolean {
  const above = bytesOfPath(directory);
  const bytes = bytesOfPath(path);
  return bytes.length > above.length && bytes[above.length] === SLASH && bytes.subarray(0, above.length).equals(above);
}

/** What is at a stored path; `null`: nothing, or nothing that can be stored. */
export async function look(files: RunnerFiles, path: string, signal: AbortSignal): Promise<Seen | null> {
  const { bytes, shown } = placeOf(path);
  try {
    return seenOf(await files.agent(shown, (client) => client.stat(bytes, { follow: false, signal }), signal));
  } catch (error) {
    if (error instanceof BoxkiteError && GONE.has(error.code)) return null;
    throw error;
  }
}

const GONE: ReadonlySet<string> = new Set(['file_not_found', 'not_a_directory', 'outside_roots']);

/** A later change of a file has another one, unless it sets times and size back. */
export function signatureOf({ inode, size, mtimeMs }: FileStat): Signature {
  return `${inode}.${size}.${mtimeMs}`;
}

function seenOf(entry: FileEntry | FileStat): Seen | null {
  const { type, size, mtimeMs } = entry;
  const mode = entry.mode & 0o777;
  if (type === 'file') return { type, mode, size, mtimeMs, signature: signatureOf(entry) };
  if (type === 'directory') return { type, mode };
  if (type === 'symlink' && entry.target !== undefined) return { type: 'link', target: textOfPath(entry.target) };
  return null;
}
