/** Packs a directory of the caller as a tar stream for a sandbox's workspace. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { TAR_END, type TarEntry, tarHeader, tarPadding } from './tar-encode.ts';
import type { KeepEntry, TreeEntry } from './tree-walk.ts';
import { unreadable, walkTree } from './tree-walk.ts';

/** What a tree will take in the workspace. */
export interface TreeSize {
  readonly bytes: number;
  readonly entries: number;
  /** Devices, sockets and pipes, which are not copied. */
  readonly skipped: readonly string[];
}

/** What the workspace offers. */
export interface Room {
  readonly bytes: number;
  readonly inodes: number;
}

const PAGE = 4096;
const READ_BYTES = 256 * 1024;
const ENTRIES_PER_TURN = 512;
const MIB = 1024 * 1024;
const OPEN_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Looks at the whole tree before anything is sent, so that one that can't fit is refused with numbers. Errors: `no_space`, `invalid_request`. */
export async function measureTree(top: string, room: Room, signal?: AbortSignal, keep?: KeepEntry): Promise<TreeSize> {
  let bytes = 0;
  let entries = 0;
  const skipped: string[] = [];
  for (const entry of walkTree(top, keep)) {
    entries += 1;
    // A tmpfs charges whole pages; a directory or link has its inode alone.
    if (entry.kind === 'file') bytes += Math.ceil(entry.stats.size / PAGE) * PAGE;
    if (entry.kind === 'other') skipped.push(entry.name);
    if (entries % ENTRIES_PER_TURN === 0) {
      await setImmediate();
      throwIfAborted(signal);
    }
  }
  if (bytes > room.bytes) {
    throw new BoxkiteError(
      'no_space',
      `${top} holds ${Math.ceil(bytes / MIB)} MiB and the workspace ${Math.floor(room.bytes / MIB)} MiB`,
      {
        hint: 'Ask for a larger workspace, or copy a smaller directory.',
      },
    );
  }
  if (entries > room.inodes) {
    throw new BoxkiteError('no_space', `${top} holds ${entries} files and the workspace room for ${room.inodes}`, {
      hint: 'Ask for more inodes, or copy a smaller directory.',
    });
  }
  return { bytes, entries, skipped };
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new BoxkiteError('aborted', 'the copy was cancelled', { cause: signal.reason });
}

/**
 * The tree as a tar stream: links stay links, permission bits and times are kept, owners are not. Stop iterating to end
 * it. Errors: `invalid_request` for a file that can't be read or changes its size meanwhile; `aborted`.
 */
export async function* packTree(
  top: string,
  signal?: AbortSignal,
  keep?: KeepEntry,
): AsyncGenerator<Uint8Array, void, undefined> {
  const gather = new Gather();
  for (const entry of walkTree(top, keep)) {
    throwIfAborted(signal);
    if (entry.kind === 'other') continue;
    if (entry.kind === 'file') yield* fileParts(entry, `${top}/${entry.name}`, gather);
    else gather.add(tarHeader(tarEntry(entry, 0)));
    if (gather.full) yield gather.take();
  }
  gather.add(TAR_END);
  yield gather.take();
}

/** Puts small pieces together: a chunk for each header would cost more than its bytes. */
class Gather {
  #parts: Uint8Array[] = [];
  #length = 0;

  get full(): boolean {
    return this.#length >= READ_BYTES;
  }

  add(part: Uint8Array): void {
    this.#parts.push(part);
    this.#length += part.length;
  }

  take(): Uint8Array {
    const whole = Buffer.concat(this.#parts, this.#length);
    this.#parts = [];
    this.#length = 0;
    return whole;
  }
}

function tarEntry(entry: TreeEntry, size: number): TarEntry {
  const { name, kind, stats, target } = entry;
  const type = kind === 'directory' || kind === 'symlink' ? kind : 'file';
  return { name, type, mode: stats.mode & 0o777, mtime: stats.mtimeMs / 1000, size, target: target ?? undefined };
}

/** The entry of a file with exactly the announced number of bytes: one that grows meanwhile is cut there, one that shrinks fails. */
async function* fileParts(
  entry: TreeEntry,
  shown: string,
  gather: Gather,
): AsyncGenerator<Uint8Array, void, undefined> {
  const file = await open(entry.access, OPEN_FILE).catch((error: unknown) => {
    throw unreadable(shown, error);
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw changed(shown);
    gather.add(tarHeader(tarEntry(entry, stats.size)));
    for (let position = 0; position < stats.size; ) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(READ_BYTES, stats.size - position)));
      if (bytesRead === 0) throw changed(shown);
      position += bytesRead;
      gather.add(buffer.subarray(0, bytesRead));
      if (gather.full) yield gather.take();
    }
    gather.add(tarPadding(stats.size));
  } finally {
    await file.close();
  }
}

function changed(path: string): BoxkiteError {
  return new BoxkiteError('invalid_request', `${path} changed while it was copied`, {
    hint: 'Stop what writes it, then try again.',
    details: { path },
  });
}
