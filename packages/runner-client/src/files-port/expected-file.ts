/** Writes that replace only what their caller has read. */
import { Buffer } from 'node:buffer';
import { BoxkiteError, expectedSha256, type FilePrecondition } from '@boxkite/protocol';
import { FileAgentError, type WriteOptions } from '../files/index.ts';
import { isOutside } from './file-errors.ts';

/** Writes by the file agent what is to be at an absolute path; `undefined`: whatever is there. Errors: `file_changed`, `invalid_request`. */
export async function writeExpecting<T>(
  path: string,
  expected: FilePrecondition | undefined,
  write: (condition: Pick<WriteOptions, 'createParents' | 'exclusive' | 'unchanged'>) => Promise<T>,
): Promise<T> {
  if (expected === undefined) return write({ createParents: true });
  const sha256 = expectedSha256(expected);
  try {
    return await write(
      sha256 === null ? { createParents: true, exclusive: true } : { unchanged: Buffer.from(sha256, 'hex') },
    );
  } catch (error) {
    throw isOtherThanExpected(error, path, expected) ? fileChanged(path, expected) : error;
  }
}

/** What is at a path is not what its caller takes it for. */
export function fileChanged(path: string, expected: FilePrecondition): BoxkiteError {
  const words = expected === 'nothing' ? 'is there already' : 'is not what it was when it was read';
  return new BoxkiteError('file_changed', `${path} ${words}`, { details: { path } });
}

/** Nothing at all is something else too, as where a directory above is missing. */
function isOtherThanExpected(error: unknown, path: string, expected: FilePrecondition): boolean {
  if (!(error instanceof FileAgentError)) return false;
  if (error.code === 'not_found') return expected !== 'nothing' && !isOutside(path);
  return error.code === 'changed' || error.code === 'exists';
}
