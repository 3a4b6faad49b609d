/** Failures of this machine's file system, as errors with a code. */
import { BoxkiteError } from '@boxkite/protocol';

const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'you may not',
  EPERM: 'you may not',
  ENOENT: 'it is not there',
  ENOTDIR: 'a part of it is not a directory',
  EISDIR: 'it is a directory',
  EEXIST: 'it is there already',
  ELOOP: 'it leads through too many links',
  EROFS: 'its file system is read-only',
  ENXIO: 'it is a socket, or a pipe that nobody has open',
  ENOSPC: 'its disk is full',
  EDQUOT: 'its disk is full for you',
  EFBIG: 'it would be too large',
};

/** Why, in a few words. */
export function reason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return WORDS[code] ?? (code === '' ? String(error) : code);
}

/** A local file or directory can't be read. */
export function unreadable(path: string, error: unknown): BoxkiteError {
  return new BoxkiteError('invalid_request', `${path} can't be read: ${reason(error)}`, {
    hint: 'Name a file or directory that you can read.',
    details: { path },
    cause: error,
  });
}

/** A local file or directory can't be made or written. */
export function unwritable(path: string, error: unknown): BoxkiteError {
  return new BoxkiteError('invalid_request', `${path} can't be written: ${reason(error)}`, {
    hint: 'Name a place that you can write, with room.',
    details: { path },
    cause: error,
  });
}
