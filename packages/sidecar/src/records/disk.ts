/** The few file operations of records. None waits for the disk: what they promise is to survive this process. */
import { close, fstat, ftruncate, open, read, readdir, unlink, write, writev } from 'node:fs';
import { promisify } from 'node:util';

/** Opens a file that only this user can read. */
export const openFile = promisify(open) as (path: string, flags: string, mode?: number) => Promise<number>;
/** Closes a descriptor. */
export const closeFile = promisify(close);
/** Cuts a file. */
export const truncateFile = promisify(ftruncate);
/** Removes a file. */
export const removeFile = promisify(unlink);
/** Names in a directory. */
export const namesIn = promisify(readdir) as (path: string) => Promise<string[]>;
const statFile = promisify(fstat);

/** Mode of every file of records. */
export const FILE_MODE = 0o600;
/** Buffers that one system call takes. */
const MOST_BUFFERS = 512;
const MOST_COPIED = 32 * 1024;

/** Writes all of the pieces one after the other from `position` on. */
export async function writeAt(fd: number, pieces: readonly Uint8Array[], position: number): Promise<void> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  // A copy of a little costs less than a call with many parts.
  if (pieces.length > 1 && length <= MOST_COPIED) return writeAt(fd, [Buffer.concat(pieces, length)], position);
  let at = position;
  for (let first = 0; first < pieces.length; first += MOST_BUFFERS) {
    at = await writeAll(fd, pieces.slice(first, first + MOST_BUFFERS), at);
  }
}

async function writeAll(fd: number, pieces: Uint8Array[], position: number): Promise<number> {
  let at = position;
  let rest = pieces;
  while (rest.length > 0) {
    let written = await writeSome(fd, rest, at);
    at += written;
    while (written > 0 || rest[0]?.length === 0) {
      const [first] = rest;
      if (first === undefined) break;
      if (written >= first.length) {
        written -= first.length;
        rest = rest.slice(1);
      } else {
        rest = [first.subarray(written), ...rest.slice(1)];
        written = 0;
      }
    }
  }
  return at;
}

function writeSome(fd: number, pieces: readonly Uint8Array[], position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, written: number): void => {
      if (error === null) resolve(written);
      else reject(error);
    };
    const [only] = pieces;
    if (only !== undefined && pieces.length === 1) write(fd, only, 0, only.length, position, done);
    else writev(fd, pieces, position, done);
  });
}

/** Reads `length` bytes from `position` on, fewer only where the file ends. */
export async function readAt(fd: number, length: number, position: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(length);
  let have = 0;
  while (have < length) {
    const got = await readSome(fd, buffer, have, position + have);
    if (got === 0) break;
    have += got;
  }
  return have === length ? buffer : buffer.subarray(0, have);
}

function readSome(fd: number, buffer: Buffer, at: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, buffer, at, buffer.length - at, position, (error, got) => {
      if (error === null) resolve(got);
      else reject(error);
    });
  });
}

/** All bytes of a file. */
export async function readWhole(path: string): Promise<Buffer> {
  const fd = await openFile(path, 'r');
  try {
    return await readAt(fd, (await statFile(fd)).size, 0);
  } finally {
    await closeFile(fd);
  }
}

/** Reads a part of a file that is not kept open. */
export async function readPart(path: string, length: number, position: number): Promise<Buffer> {
  const fd = await openFile(path, 'r');
  try {
    return await readAt(fd, length, position);
  } finally {
    await closeFile(fd);
  }
}

/** Whether a failed system call says so. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Removes a file that may be gone already. */
export async function removeIfThere(path: string): Promise<void> {
  try {
    await removeFile(path);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}
