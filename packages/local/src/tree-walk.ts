/**
 * Walks a directory of the caller without ever leaving it: each directory is held open while its entries are looked at,
 * so that exchanging a directory for a link during the walk changes nothing about what is read.
 */

import type { Stats } from 'node:fs';
import { closeSync, constants, existsSync, fstatSync, lstatSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { BoxkiteError } from '@boxkite/protocol';

/** One entry of the walked tree. */
export interface TreeEntry {
  /** Path from the top, with `/` between its parts. */
  readonly name: string;
  /** Path by which it can be opened while the walk stands at this entry, and no longer. */
  readonly access: string;
  readonly kind: 'file' | 'directory' | 'symlink' | 'other';
  readonly stats: Stats;
  /** Of a symlink: where it points, unresolved. */
  readonly target: string | null;
}

const OPEN_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Elsewhere than on Linux, where only clients run, paths have to do. */
const BY_DESCRIPTOR = existsSync('/proc/self/fd');
/** Each level of the walk holds a descriptor, and the file agent unpacks no more than 256 names in one path. */
const MAX_DEPTH = 255;

/** Turns a failed system call of the walk into an error that names the caller's own path. */
export function unreadable(path: string, error: unknown): BoxkiteError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'an unknown error';
  const words: Readonly<Record<string, string>> = {
    EACCES: 'you may not read it',
    EPERM: 'you may not read it',
    ENOENT: 'it is not there',
    ENOTDIR: 'it is not a directory',
    ELOOP: 'it is a symbolic link',
  };
  return new BoxkiteError('invalid_request', `${path} can't be copied: ${words[code] ?? code}`, {
    hint: 'Make it readable, move it elsewhere, or copy another directory.',
    details: { path },
    cause: error,
  });
}

function kindOf(stats: Stats): TreeEntry['kind'] {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  return stats.isSymbolicLink() ? 'symlink' : 'other';
}

/** The names in a directory, in a stable order. A name that is not UTF-8 would be altered on its way, so it is refused. */
function namesOf(access: string, shown: string): readonly string[] {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  return readdirSync(access, { encoding: 'buffer' })
    .map((raw) => {
      try {
        return decoder.decode(raw);
      } catch (error) {
        throw new BoxkiteError('invalid_request', `a name in ${shown} is not UTF-8: ${raw.toString('latin1')}`, {
          hint: 'Rename the file, or copy another directory.',
          cause: error,
        });
      }
    })
    .sort();
}

/**
 * Every entry below `top`, parents before children. `top` itself may be a link, since the caller named it; nothing below
 * is followed. Errors: `invalid_request` with the path that can't be read.
 */
export function* walkTree(top: string, keep?: KeepEntry): Generator<TreeEntry, void, undefined> {
  yield* walkOpen(open(top, top, constants.O_RDONLY | constants.O_DIRECTORY), '', { top, keep }, 0);
}

/** Whether an entry belongs to the walk; what is below a directory that does not is not looked at. */
export type KeepEntry = (entry: TreeEntry) => boolean;

interface Walk {
  readonly top: string;
  readonly keep: KeepEntry | undefined;
}

function open(access: string, shown: string, flags: number): number {
  try {
    return openSync(access, flags);
  } catch (error) {
    throw unreadable(shown, error);
  }
}

function* walkOpen(
  descriptor: number,
  prefix: string,
  walk: Walk,
  depth: number,
): Generator<TreeEntry, void, undefined> {
  const { top, keep } = walk;
  try {
    const shown = prefix === '' ? top : `${top}/${prefix}`;
    if (depth > MAX_DEPTH || !fstatSync(descriptor).isDirectory()) {
      throw new BoxkiteError('invalid_request', `${shown} is more than ${MAX_DEPTH} directories deep`, {
        hint: 'Copy a directory that is less deep.',
      });
    }
    const base = BY_DESCRIPTOR ? `/proc/self/fd/${descriptor}` : shown;
    for (const part of listed(base, shown)) {
      const name = prefix === '' ? part : `${prefix}/${part}`;
      const entry = look(`${base}/${part}`, name, top);
      if (keep?.(entry) === false) continue;
      yield entry;
      if (entry.kind !== 'directory') continue;
      yield* walkOpen(open(entry.access, `${top}/${name}`, OPEN_DIRECTORY), name, walk, depth + 1);
    }
  } finally {
    closeSync(descriptor);
  }
}

function listed(base: string, shown: string): readonly string[] {
  try {
    return namesOf(base, shown);
  } catch (error) {
    throw error instanceof BoxkiteError ? error : unreadable(shown, error);
  }
}

function look(access: string, name: string, top: string): TreeEntry {
  try {
    const stats = lstatSync(access);
    const kind = kindOf(stats);
    return { name, access, kind, stats, target: kind === 'symlink' ? readlinkSync(access) : null };
  } catch (error) {
    throw unreadable(`${top}/${name}`, error);
  }
}
