/** Takes the place of directories of a machine where there is none. */
import { BoxkiteError } from '@boxkite/protocol';
import type { Directories } from '../directories.ts';

function refuse(): never {
  throw new BoxkiteError('unsupported_platform', 'directories of this machine can be read and written by Node alone', {
    hint: 'Write files one by one.',
  });
}

/** Always fails with `unsupported_platform`. */
export const checkSource: Directories['checkSource'] = refuse;
/** Always fails with `unsupported_platform`. */
export const uploadDirectory: Directories['uploadDirectory'] = async () => refuse();
/** Always fails with `unsupported_platform`. */
export const downloadDirectory: Directories['downloadDirectory'] = async () => refuse();
