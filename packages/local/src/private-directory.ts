/**
 * The directory of one private runner: only its owner can enter it, so that nobody else of this machine reaches the
 * runner's socket. Its parents are checked, because a directory that somebody else may rename or replace is not private.
 */
import { chmodSync, lstatSync, mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';

/** Where private directories are made. */
export interface StateLocation {
  /** Effective user id of this process. */
  readonly uid: number;
  /** Default: `/run/user/UID`, which is where `$XDG_RUNTIME_DIR` points on a usual login. */
  readonly runtimeDirectory?: string | undefined;
  /** Default: the system's directory for temporary files. */
  readonly temporaryDirectory?: string | undefined;
}

/** The directory that holds all of a user's that ends with the machine's run; it may not be there. */
export function baseDirectory(location: StateLocation): string {
  if (location.uid === 0) return '/run/boxkite';
  const runtime = location.runtimeDirectory ?? `/run/user/${location.uid}`;
  if (runtime.startsWith('/') && isOwn(runtime, location.uid)) return join(runtime, 'boxkite');
  return join(location.temporaryDirectory ?? tmpdir(), `boxkite-${location.uid}`);
}

/** The directories from the first that we make to the one that holds private directories, outermost first. */
function chain(location: StateLocation): readonly string[] {
  const base = baseDirectory(location);
  return [base, join(base, 'private')];
}

/** Whether a directory is there, is `uid`'s and can't be written by others. */
function isOwn(path: string, uid: number): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === uid && (found.mode & 0o022) === 0;
}

function refuse(path: string, uid: number, detail: string, cause?: unknown): never {
  throw new BoxkiteError('runner_failed', `the directory ${path} for the runner's socket can't be used: ${detail}`, {
    hint: `Remove ${path}${uid === 0 ? '' : ', or set XDG_RUNTIME_DIR to a directory that only you can write'}.`,
    cause,
  });
}

/** Makes a directory of mode 0700 where it is missing; refuses one that others own or may write. Errors: `runner_failed`. */
export function ensureOwn(path: string, uid: number): void {
  try {
    mkdirSync(path, { mode: 0o700 });
    // The umask can only have taken bits away from the owner, who needs all three.
    chmodSync(path, 0o700);
    return;
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) refuse(path, uid, 'it can not be made', error);
  }
  const found = lstatSync(path);
  if (!found.isDirectory()) refuse(path, uid, 'it is not a directory');
  if (found.uid !== uid) refuse(path, uid, `it belongs to user ${found.uid}`);
  if ((found.mode & 0o022) !== 0) refuse(path, uid, 'others may write it');
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/**
 * Makes a new private directory and returns its path. The runner that serves in it removes it.
 * Errors: `runner_failed`.
 */
export function makePrivateDirectory(location: StateLocation): string {
  const parents = chain(location);
  for (const parent of parents) ensureOwn(parent, location.uid);
  const last = parents.at(-1);
  if (last === undefined) throw new TypeError('a location has at least one directory');
  try {
    return mkdtempSync(join(last, `${process.pid}-`));
  } catch (error) {
    return refuse(last, location.uid, 'nothing can be made in it', error);
  }
}
