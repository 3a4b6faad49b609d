/** What a file system says, as the registry's errors. */
import { BoxkiteError } from '@boxkite/protocol';

const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Whether a failed system call says so. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && codes.includes(error.code);
}

/** Whether there is nothing at a path, or it leads through what is no directory. */
export function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT', 'ENOTDIR');
}

/** Runs calls of the file system. Errors: `storage_full`, `storage_unavailable`; other failures pass as they are. */
export async function storeError<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    const isFull = 'code' in error && typeof error.code === 'string' && FULL.has(error.code);
    if (isFull) throw new BoxkiteError('storage_full', 'the object store has no room for it', { cause: error });
    throw new BoxkiteError('storage_unavailable', 'the directory of the object store can not be used', {
      cause: error,
    });
  }
}
