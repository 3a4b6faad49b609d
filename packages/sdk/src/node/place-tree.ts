/** Moves an unpacked tree to where its caller wants it. */
import type { Dirent } from 'node:fs';
import { chmod, lstat, readdir, rename, rmdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { ErrorCode } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { Attributes } from './unpack-tree.ts';

/** Before anything is sent. Errors: `directory_not_empty`, `not_a_directory`. */
export async function checkTarget(target: string, merge: boolean): Promise<void> {
  const found = await kindOf(target);
  if (found === null) return;
  if (found !== 'directory') throw refused('not_a_directory', target, 'is there and is no directory');
  if (merge || (await readdir(target)).length === 0) return;
  throw refused('directory_not_empty', target, 'is not empty', 'Choose another target, or set `merge`.');
}

/**
 * Moves the tree at `staging` to `target`, beside it. A merge is looked through before it begins, so that one that can't
 * end well changes nothing. Returns the directories that were there before, the top's name empty. Errors: as `checkTarget`.
 */
export async function moveInto(staging: string, target: string, merge: boolean): Promise<ReadonlySet<string>> {
  const kept = new Set<string>();
  if ((await kindOf(target)) === null) {
    await rename(staging, target);
    return kept;
  }
  if (!merge) {
    // Somebody may have put something there meanwhile: this removes it only if it is empty.
    await rmdir(target).catch((error: unknown) => {
      throw refused('directory_not_empty', target, 'is no longer an empty directory', undefined, error);
    });
    await rename(staging, target);
    return kept;
  }
  await checkMerge(staging, target, '');
  await mergeInto(staging, target, '', kept);
  return kept;
}

/** Gives directories their modes and times, children first; those that were there before keep theirs. */
export async function finishDirectories(
  target: string,
  directories: ReadonlyMap<string, Attributes>,
  kept: ReadonlySet<string>,
): Promise<void> {
  const made = new Map(directories);
  if (!made.has('')) made.set('', { mode: 0o755, time: undefined });
  for (const [name, { mode, time }] of [...made].sort(([a], [b]) => depth(b) - depth(a))) {
    if (kept.has(name)) continue;
    const path = join(target, name);
    if (time !== undefined) await utimes(path, time, time);
    await chmod(path, mode);
  }
}

function depth(name: string): number {
  return name === '' ? 0 : name.split('/').length;
}

async function checkMerge(staging: string, target: string, name: string): Promise<void> {
  for (const entry of await entries(join(staging, name))) {
    const path = join(name, entry.name);
    const found = await kindOf(join(target, path));
    if (found === null) continue;
    if (entry.isDirectory() && found !== 'directory')
      throw refused('not_a_directory', join(target, path), 'is there and is no directory');
    if (!entry.isDirectory() && found === 'directory')
      throw refused('is_directory', join(target, path), 'is there and is a directory');
    if (entry.isDirectory()) await checkMerge(staging, target, path);
  }
}

async function mergeInto(staging: string, target: string, name: string, kept: Set<string>): Promise<void> {
  kept.add(name);
  for (const entry of await entries(join(staging, name))) {
    const path = join(name, entry.name);
    const both = entry.isDirectory() && (await kindOf(join(target, path))) === 'directory';
    if (both) await mergeInto(staging, target, path, kept);
    else await rename(join(staging, path), join(target, path));
  }
}

function entries(path: string): Promise<Dirent[]> {
  return readdir(path, { withFileTypes: true });
}

/** What is there; a link is a link, wherever it leads. */
async function kindOf(path: string): Promise<'directory' | 'other' | null> {
  try {
    return (await lstat(path)).isDirectory() ? 'directory' : 'other';
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

function refused(code: ErrorCode, path: string, what: string, hint?: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError(code, `${path} ${what}`, { hint, details: { path }, cause });
}
