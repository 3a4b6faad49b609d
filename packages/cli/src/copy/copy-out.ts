/** Copies files and directories of a sandbox to this machine. What a sandbox says about its files is not trusted. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, lstat, open, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join, posix } from 'node:path';
import type { Writable } from 'node:stream';
import type { FileInfo, FilesPort, SandboxPort, ServerPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { unwritable } from './local-errors.ts';
import { lookAt, meansContents, refusal } from './place.ts';
import type { Progress } from './progress.ts';

/** One copy. */
export interface CopyOut {
  readonly server: ServerPort;
  readonly sandbox: SandboxPort;
  readonly source: string;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Characters of a name in the name of its unfinished copy, which must not be too long for a name. */
const MAX_NAME_SHOWN = 50;

async function found(copy: CopyOut): Promise<FileInfo & { readonly real: string }> {
  const info = await lookAt(copy.sandbox.files, copy.source, copy.signal);
  if (info === null)
    throw new BoxkiteError('file_not_found', `there is no ${copy.source} in the sandbox`, {
      hint: 'Look with: boxkite exec ID -- ls',
    });
  if (info.type === 'other')
    throw refusal(`${copy.source} is neither a file nor a directory`, 'Only files and directories can be copied.');
  if (info.type === 'file' && copy.source.endsWith('/'))
    throw refusal(`${copy.source} is not a directory`, 'Leave out the slash at its end.');
  return info;
}

/** Copies one file to a stream. */
export async function copyToOutput(copy: CopyOut, output: Writable): Promise<void> {
  const info = await found(copy);
  if (info.type === 'directory')
    throw refusal(
      `${copy.source} is a directory`,
      `Name a directory as the target, or: boxkite exec ID -- tar c ${copy.source}`,
    );
  copy.progress.expect(info.size);
  for await (const part of copy.sandbox.files.read(info.real, {}, copy.signal)) {
    copy.progress.add(part.length);
    if (!output.write(part)) await drained(output, copy.signal);
  }
  copy.progress.files += 1;
}

function drained(output: Writable, signal: AbortSignal): Promise<void> {
  // An output that is gone already drains no more, and its signal tells of it once.
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done);
      resolve();
    };
    output.once('drain', done);
    signal.addEventListener('abort', done);
  });
}

/** Copies a file or directory as of cp -r. Returns the local path that it has. */
export async function copyOut(target: string, copy: CopyOut): Promise<string> {
  const info = await found(copy);
  const there = await stat(target).catch((): null => null);
  const name = basename(info.real === '/' ? '' : posix.resolve(copy.source));
  if (info.type === 'directory') return copyDirectory(target, there?.isDirectory() ?? null, name, info.real, copy);
  if (there === null && target.endsWith('/'))
    throw refusal(`there is no directory ${target}`, 'Make it first, or leave out the slash at its end.');
  const path = there?.isDirectory() === true ? join(target, name) : target;
  copy.progress.expect(info.size);
  await refuseSurprises(path);
  await writeOver(path, info, copy);
  return path;
}

/** Replaces a file at once when the new one is whole. */
async function writeOver(path: string, info: FileInfo & { readonly real: string }, copy: CopyOut): Promise<void> {
  const part = join(
    dirname(path),
    `.${basename(path).slice(0, MAX_NAME_SHOWN)}.${randomBytes(6).toString('hex')}.part`,
  );
  try {
    await download(part, path, info, copy);
    await rename(part, path).catch((error: unknown) => {
      throw unwritable(path, error);
    });
  } catch (error) {
    await unlink(part).catch((): undefined => undefined);
    throw error;
  }
}

/** An earlier copy may have brought a link that leads anywhere, so that nothing is written through one. */
async function refuseSurprises(path: string): Promise<void> {
  const there = await lstat(path).catch((): null => null);
  if (there === null) return;
  if (there.isSymbolicLink())
    throw refusal(`${path} is a symbolic link`, 'Remove it first, or name what it points to.');
  if (there.isDirectory()) throw refusal(`${path} is a directory`, 'Remove it first, or name another target.');
  if (!there.isFile())
    throw refusal(`${path} is not a regular file`, 'Write to standard output: boxkite cp ID:PATH - > FILE');
  await access(path, constants.W_OK).catch((error: unknown) => {
    throw unwritable(path, error);
  });
}

/**
 * Writes a file that is new, the part of `path`, by which it is called in errors. Set-id bits of a sandbox mean nothing
 * here; the umask holds.
 */
async function download(
  part: string,
  path: string,
  info: FileInfo & { readonly real: string },
  copy: CopyOut,
): Promise<void> {
  const file = await open(part, NEW_FILE, info.mode & 0o777).catch((error: unknown) => {
    const absent = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    if (absent) throw refusal(`there is no directory ${dirname(path)}`, 'Make it first, or name another target.');
    throw unwritable(path, error);
  });
  try {
    for await (const bytes of copy.sandbox.files.read(info.real, {}, copy.signal)) {
      await file.writeFile(bytes).catch((error: unknown) => {
        throw unwritable(path, error);
      });
      copy.progress.add(bytes.length);
    }
  } finally {
    await file.close();
  }
  copy.progress.files += 1;
}

async function copyDirectory(
  target: string,
  targetIsDirectory: boolean | null,
  name: string,
  real: string,
  copy: CopyOut,
): Promise<string> {
  if (targetIsDirectory === false)
    throw refusal(`${target} is not a directory, and ${copy.source} is`, 'Name another target.');
  const inside = targetIsDirectory === true && !meansContents(copy.source) && name !== '';
  const path = inside ? join(target, name) : target;
  if (inside) await refuseLink(path);
  await downloadTree(real, path, copy);
  return path;
}

/** The name of the copy comes from the sandbox: an earlier copy may have put a link there that leads anywhere. */
async function refuseLink(path: string): Promise<void> {
  const there = await lstat(path).catch((): null => null);
  if (there?.isSymbolicLink() === true)
    throw refusal(`${path} is a symbolic link`, 'Remove it first, or name another target.');
}

/** The SDK unpacks: nothing that a sandbox says leads out of the target, and all comes or nothing. */
async function downloadTree(real: string, path: string, copy: CopyOut): Promise<void> {
  const { progress, signal } = copy;
  const { Sandbox } = await import('../remote.ts');
  const sandbox = await Sandbox.connect(copy.sandbox.id, { provider: counted(copy), signal });
  const { bytes, inodes } = copy.sandbox.effective.workspace;
  const report = await sandbox.files.downloadDirectory(real, path, {
    merge: true,
    links: 'skip',
    // No tree of the sandbox is larger.
    max_bytes: bytes,
    max_entries: inodes,
    signal,
  });
  progress.bytes = report.bytes;
  progress.files += report.files;
  for (const link of report.skipped)
    progress.omitted.push(`${link} is left out: it is a link that leads out of the copy`);
  if (report.omitted !== null && report.omitted > 0)
    progress.omitted.push(
      `${report.omitted} of ${path} are left out: they can't be read, or are devices, sockets or pipes`,
    );
  if (report.cut !== null && report.cut > 0)
    progress.omitted.push(`${report.cut} of ${path} became shorter while they were read: the rest of each is zeros`);
}

/** A provider of this one sandbox that counts what comes. */
function counted({ server, sandbox, progress }: CopyOut): ServerPort {
  const pack: FilesPort['pack'] = (path, signal, onEnd) => progress.count(sandbox.files.pack(path, signal, onEnd));
  const counting = replacing(sandbox, { files: replacing(sandbox.files, { pack }) });
  return replacing(server, { sandboxes: replacing(server.sandboxes, { connect: async () => counting }) });
}

/** The object with some of its members replaced. */
function replacing<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get: (_target, name) => {
      const value: unknown = Object.hasOwn(members, name) ? Reflect.get(members, name) : Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
