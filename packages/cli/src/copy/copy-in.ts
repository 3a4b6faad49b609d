/** Copies files and directories of this machine into a sandbox. */
import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { open, stat } from 'node:fs/promises';
import { basename, posix, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import type { FilesPort } from '@boxkite/protocol';
import { unreadable } from './local-errors.ts';
import { lookAt, meansContents, refusal } from './place.ts';
import type { Progress } from './progress.ts';

/** One copy. */
export interface CopyIn {
  readonly files: FilesPort;
  /** As it was given; what it is for the sandbox says how it ends. */
  readonly target: string;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

const READ_BYTES = 256 * 1024;

/** Copies standard input into one file. */
export async function copyInput(source: Readable, copy: CopyIn): Promise<string> {
  const { files, target, signal, progress } = copy;
  const found = await lookAt(files, target, signal);
  if (found?.type === 'directory' || target.endsWith('/'))
    throw refusal(`${target} is a directory, and standard input has no name`, 'Name the file: ID:DIRECTORY/NAME.');
  await requireParent(copy, target);
  const path = found?.real ?? target;
  await files.write(path, progress.count(bytesOf(source)), { parents: false }, signal);
  progress.files += 1;
  return path;
}

async function* bytesOf(source: Readable): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of source) yield typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Uint8Array);
}

/** Copies a file or a directory. Returns the path that it has in the sandbox. */
export async function copyIn(source: string, copy: CopyIn): Promise<string> {
  // Not blocking: a pipe without a writer would wait for ever.
  const handle = await open(source, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    throw unreadable(source, error);
  });
  try {
    const stats = await handle.stat();
    if (stats.isDirectory()) return await copyDirectory(source, copy);
    if (!stats.isFile())
      throw refusal(`${source} is neither a file nor a directory`, 'Read it by a program: … | boxkite cp - ID:PATH.');
    if (source.endsWith('/')) throw refusal(`${source} is not a directory`, 'Leave out the slash at its end.');
    return await copyFile(source, handle, copy);
  } finally {
    await handle.close();
  }
}

async function copyFile(source: string, handle: FileHandle, copy: CopyIn): Promise<string> {
  const { files, target, signal, progress } = copy;
  const { size, mode } = await handle.stat();
  const found = await lookAt(files, target, signal);
  if (found === null && target.endsWith('/'))
    throw refusal(
      `there is no directory ${target} in the sandbox`,
      'Make it first, or leave out the slash at its end.',
    );
  const into = found?.type === 'directory' ? posix.join(found.real, basename(resolve(source))) : null;
  const path = into ?? found?.real ?? target;
  if (into !== null && (await lookAt(files, into, signal))?.type === 'directory')
    throw refusal(`${into} in the sandbox is a directory`, 'Remove it first, or name another target.');
  if (found === null) await requireParent(copy, target);
  progress.expect(size);
  await files.write(path, progress.count(chunks(handle)), { mode: mode & 0o777, parents: false }, signal);
  progress.files += 1;
  return path;
}

async function* chunks(handle: FileHandle): AsyncGenerator<Uint8Array, void, undefined> {
  for (;;) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** A directory that is missing is more often a slip than meant. */
async function requireParent({ files, signal }: CopyIn, target: string): Promise<void> {
  const parent = posix.dirname(target);
  const found = await lookAt(files, parent, signal);
  if (found?.type === 'directory') return;
  if (found === null)
    throw refusal(`there is no directory ${parent} in the sandbox`, `Make it: boxkite exec ID -- mkdir -p ${parent}`);
  throw refusal(`${parent} in the sandbox is not a directory`, 'Name another target.');
}

/** As of cp -r: into a directory that is there, else under the name of the target. */
async function copyDirectory(source: string, copy: CopyIn): Promise<string> {
  const { files, target, signal, progress } = copy;
  const found = await lookAt(files, target, signal);
  if (found !== null && found.type !== 'directory')
    throw refusal(`${target} in the sandbox is not a directory, and ${source} is`, 'Name another target.');
  if (found === null) await requireParent(copy, posix.resolve(target));
  const path =
    found === null || meansContents(source)
      ? (found?.real ?? posix.resolve(target))
      : posix.join(found.real, basename(resolve(source)));
  const there = await lookAt(files, path, signal);
  if (there !== null && there.type !== 'directory')
    throw refusal(
      `${path} in the sandbox is not a directory, and ${source} is`,
      'Remove it first, or name another target.',
    );
  const { packTree, measureTree } = await import('@boxkite/local');
  const size = await measureTree(source, UNLIMITED, signal);
  progress.expect(size.bytes);
  progress.files += size.entries - size.skipped.length;
  for (const name of size.skipped) progress.omitted.push(`${name} is left out: it is a device, socket or pipe`);
  await files.mkdir(path, signal);
  await files.unpack(path, progress.count(packTree(source, signal)), signal);
  return path;
}

/** The sandbox itself says when it has no room. */
const UNLIMITED = { bytes: Number.POSITIVE_INFINITY, inodes: Number.POSITIVE_INFINITY };

/** Whether a local path is a directory. */
export async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch((): null => null);
  return found?.isDirectory() === true;
}
