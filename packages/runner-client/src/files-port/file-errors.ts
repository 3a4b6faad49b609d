/** Turns what the file agent says into the registry's errors. */
import { posix } from 'node:path';
import type { ErrorCode } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { FileErrorCode } from '../files/index.ts';
import { FileAgentError } from '../files/index.ts';

/** All that a file agent sees. */
const ROOTS = ['/workspace', '/mnt/user-data/uploads', '/mnt/user-data/outputs', '/mnt/skills', '/tmp'] as const;

const CODES: Readonly<Record<FileErrorCode, ErrorCode>> = {
  invalid: 'invalid_request',
  not_found: 'file_not_found',
  exists: 'file_exists',
  not_a_file: 'not_a_file',
  is_directory: 'is_directory',
  not_a_directory: 'not_a_directory',
  read_only: 'read_only',
  no_space: 'no_space',
  permission: 'permission_denied',
  too_large: 'file_too_large',
  cancelled: 'aborted',
  limit: 'capacity',
  io: 'io_error',
  not_empty: 'directory_not_empty',
  busy: 'file_busy',
  loop: 'too_many_links',
  name_too_long: 'name_too_long',
  cross_device: 'cross_device',
  unsupported: 'unsupported',
  protocol: 'internal',
  refused: 'archive_refused',
  pattern: 'invalid_request',
  changed: 'file_busy',
};

/** What is said of a path; the agent's own text is the detail where it says more than the code. */
const WORDS: Readonly<Partial<Record<ErrorCode, string>>> = {
  file_not_found: 'is not there',
  file_exists: 'exists already',
  not_a_file: 'is not a regular file',
  is_directory: 'is a directory',
  not_a_directory: 'is not a directory',
  read_only: 'can not be written',
  no_space: 'does not fit into the room of this sandbox',
  permission_denied: 'may not be accessed by the user of the sandbox',
  file_too_large: 'is too large',
  directory_not_empty: 'is not empty',
  file_busy: 'is in use or changes',
  too_many_links: 'leads through too many links',
  name_too_long: 'has a name that is too long',
  cross_device: 'is on another file system than its new place',
};

const OF_TARGETS: ReadonlySet<FileErrorCode> = new Set(['is_directory', 'not_empty', 'exists']);

/** A path of a caller as the agent takes it: absolute, otherwise as it is, since `..` behind a link is the kernel's matter. */
export function absolutePath(path: unknown): string {
  if (typeof path !== 'string' || path === '' || path.includes('\0')) {
    throw new BoxkiteError('invalid_request', 'a path is to be a string that is not empty and has no NUL', {
      details: { field: 'path' },
    });
  }
  return path.startsWith('/') ? path : path === '.' ? '/workspace' : `/workspace/${path}`;
}

/** Only for the error's words: what is outside does not exist for the agent, whatever this says. */
export function isOutside(path: string): boolean {
  const plain = posix.normalize(path);
  return !ROOTS.some((root) => plain === root || plain.startsWith(`${root}/`));
}

/** The registry's error for a failed call about a path; `null` where the failure is none of the agent's answers. */
export function fileError(error: unknown, path: string): BoxkiteError | null {
  if (!(error instanceof FileAgentError)) return null;
  const code = CODES[error.code];
  if ((code === 'file_not_found' || code === 'read_only' || code === 'permission_denied') && isOutside(path)) {
    return new BoxkiteError('outside_roots', `${path} is outside of what the sandbox keeps files in`, {
      details: { path },
      cause: error,
    });
  }
  const words = WORDS[code];
  const message = words === undefined ? `${path}: ${error.message}` : `${path} ${words}`;
  return new BoxkiteError(code, message, { details: { path, reason: error.message }, cause: error });
}

/** What a move found at its new place that it can't take that of; `null` for failures that may be of the old one. */
export function targetError(error: unknown, target: string): BoxkiteError | null {
  return error instanceof FileAgentError && OF_TARGETS.has(error.code) ? fileError(error, target) : null;
}
