/**
 * Unpacks a tar stream that a sandbox made, which is to say: of anybody. It writes into a new directory that only its
 * caller can enter, and makes links last, so that no entry is ever written through one.
 */
import { constants } from 'node:fs';
import { lutimes, mkdir, open, symlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import type { Extract, Header } from 'tar-stream';
import { extract } from 'tar-stream';

type Entry = Extract extends AsyncIterable<infer Source> ? Source : never;

import type { DownloadReport } from '../directories.ts';

/** What is let in. */
export interface UnpackRules {
  readonly links: 'refuse' | 'skip';
  readonly maxBytes: number;
  readonly maxEntries: number;
  readonly signal: AbortSignal | undefined;
}

const MAX_DEPTH = 256;
const MAX_NAME_BYTES = 255;
const PERMISSIONS = 0o777;
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** What every file system can keep. */
const MAX_TIME_MS = 2 ** 31 * 1000;

/**
 * Errors: `archive_refused` for an entry or size that is not let in; those of the stream; `connection_lost` where it ends
 * before the archive does; of this machine: `no_space`, `io_error`.
 */
export async function unpackTree(
  tar: AsyncIterable<Uint8Array>,
  top: string,
  rules: UnpackRules,
): Promise<UnpackedTree> {
  const tree = new Tree(top, rules);
  const archive = extract();
  const fault: Fault = { failed: false, error: undefined };
  const mark = new EndMark();
  const feeding = feed(mark.watch(tar), archive, fault);
  try {
    for await (const entry of archive) {
      mark.entry(entry.header);
      await tree.add(entry);
    }
    await feeding;
    if (!mark.reached) throw cutOff();
    return await tree.finish();
  } catch (error) {
    archive.destroy(new Error('nobody reads it any longer'));
    // Where the stream itself failed, that is the reason, and the archive's complaint its echo.
    throw fault.failed ? fault.error : explained(error, mark);
  }
}

/** What a stream failed with. */
interface Fault {
  failed: boolean;
  error: unknown;
}

/** Never rejects. */
async function feed(tar: AsyncIterable<Uint8Array>, archive: Extract, fault: Fault): Promise<void> {
  try {
    for await (const part of tar) {
      if (archive.destroyed) return;
      if (!archive.write(Buffer.from(part.buffer, part.byteOffset, part.byteLength))) await drained(archive);
    }
    archive.end(null);
  } catch (error) {
    Object.assign(fault, { failed: true, error });
    archive.destroy(new Error('the stream failed'));
  }
}

function drained(archive: Extract): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      archive.off('drain', done).off('close', done).off('error', done);
      resolve();
    };
    archive.on('drain', done).on('close', done).on('error', done);
  });
}

const BLOCK = 512;
const MARK_BYTES = 2 * BLOCK;
/** What the reader of the archive says of one that ends elsewhere than between two entries. */
const UNEXPECTED_END = 'Unexpected end of data';

/**
 * The end of an archive: two blocks of zeros behind the last entry. The stream's own end says little, since it is also
 * what is left of an answer that somebody on its way cut.
 */
class EndMark {
  #length = 0;
  #zeros = 0;
  #entriesEnd = 0;
  #ended = false;

  async *watch(tar: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const part of tar) {
      const tail = part.subarray(-MARK_BYTES);
      const last = tail.findLastIndex((byte) => byte !== 0);
      this.#zeros = last === -1 ? this.#zeros + tail.length : tail.length - 1 - last;
      this.#length += part.length;
      yield part;
    }
    this.#ended = true;
  }

  entry({ byteOffset, type, size }: Header & { readonly byteOffset?: number }): void {
    // The reader of the archive takes the size of a directory for none.
    const bytes = type === 'directory' ? 0 : (size ?? 0);
    this.#entriesEnd = (byteOffset ?? 0) + Math.ceil(bytes / BLOCK) * BLOCK;
  }

  /** The stream has ended within the bytes of an entry. */
  get endedInEntry(): boolean {
    return this.#ended && this.#length < this.#entriesEnd;
  }

  get reached(): boolean {
    return Math.min(this.#zeros, this.#length - this.#entriesEnd) >= MARK_BYTES;
  }
}

function cutOff(cause?: unknown): BoxkiteError {
  return new BoxkiteError('connection_lost', 'the connection ended before the directory was whole', { cause });
}

/** What an entry says of its file or directory, beside its bytes. */
export interface Attributes {
  readonly mode: number;
  readonly time: Date | undefined;
}

/** A tree that was unpacked. */
export interface UnpackedTree {
  readonly report: Omit<DownloadReport, 'omitted' | 'cut'>;
  /**
   * What each directory is to be once everything is in place, parents before children; the top's name is empty. Until
   * then all of them are open to their owner.
   */
  readonly directories: ReadonlyMap<string, Attributes>;
}

class Tree {
  readonly #top: string;
  readonly #rules: UnpackRules;
  readonly #directories = new Map<string, Attributes>();
  readonly #links = new Map<string, { readonly target: string; readonly time: Date | undefined }>();
  readonly #skipped: string[] = [];
  #files = 0;
  #bytes = 0;
  #entries = 0;

  constructor(top: string, rules: UnpackRules) {
    this.#top = top;
    this.#rules = rules;
  }

  async add(entry: Entry): Promise<void> {
    const { header } = entry;
    this.#throwIfAborted();
    const name = checkedName(header.name);
    this.#entries += 1;
    if (this.#entries > this.#rules.maxEntries)
      throw refused(`it has more than ${this.#rules.maxEntries} entries`, name);
    if (header.type === 'directory') await this.#directory(name, header);
    else if (name === '') throw refused('its top is no directory', header.name);
    else if (header.type === 'file' || header.type === 'contiguous-file') await this.#file(name, entry);
    else if (header.type === 'symlink') this.#link(name, header);
    else throw refused(`it has an entry of the type ${String(header.type)}`, name);
    entry.resume();
  }

  async finish(): Promise<UnpackedTree> {
    for (const [name, { target, time }] of this.#links) {
      const path = join(this.#top, name);
      await this.#parents(name);
      await made(symlink(target, path), name);
      if (time !== undefined) await lutimes(path, time, time);
    }
    const directories = this.#directories.size - (this.#directories.has('') ? 1 : 0);
    const counts = { files: this.#files, directories, links: this.#links.size, bytes: this.#bytes };
    return { report: { ...counts, skipped: this.#skipped }, directories: this.#directories };
  }

  async #directory(name: string, header: Header): Promise<void> {
    if (name !== '') {
      await this.#parents(name);
      await this.#make(name);
    }
    this.#directories.set(name, attributes(header));
  }

  async #file(name: string, entry: Entry): Promise<void> {
    const { mode, time } = attributes(entry.header);
    await this.#parents(name);
    const file = await made(open(join(this.#top, name), NEW_FILE, 0o600), name);
    try {
      for await (const part of entry) {
        this.#throwIfAborted();
        const bytes = part as Uint8Array;
        this.#bytes += bytes.length;
        if (this.#bytes > this.#rules.maxBytes) throw refused(`it has more than ${this.#rules.maxBytes} bytes`, name);
        for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
      }
      await file.chmod(mode);
      if (time !== undefined) await file.utimes(time, time);
    } finally {
      await file.close();
    }
    this.#files += 1;
  }

  /** Links are made at the end: an entry that is to be written through one finds a directory, or nothing, in its place. */
  #link(name: string, header: Header): void {
    // Its type says less than it does: one without a target has none.
    const target = header.linkname ?? '';
    const inside = posix.normalize(posix.join(posix.dirname(name), target));
    const leaves =
      target === '' ||
      target.includes('\0') ||
      target.startsWith('/') ||
      /^\.\.(?:\/|$)/.test(inside) ||
      turnsBack(target);
    if (leaves && this.#rules.links === 'refuse') throw refused(`a link leads out of it, to ${target}`, name);
    if (leaves) this.#skipped.push(name);
    else if (this.#links.has(name)) throw refused('it has two entries of one name', name);
    else this.#links.set(name, { target, time: attributes(header).time });
  }

  /** Makes the directories that lead to an entry. */
  async #parents(name: string): Promise<void> {
    for (let end = name.indexOf('/'); end !== -1; end = name.indexOf('/', end + 1))
      await this.#make(name.slice(0, end));
  }

  async #make(name: string): Promise<void> {
    if (this.#directories.has(name)) return;
    await made(mkdir(join(this.#top, name), 0o700), name);
    this.#directories.set(name, { mode: 0o755, time: undefined });
  }

  #throwIfAborted(): void {
    const { signal } = this.#rules;
    if (signal?.aborted === true) throw new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
  }
}

/** Whether `..` follows a name: that name may be a link, and what is above where it leads is not what the path says. */
function turnsBack(target: string): boolean {
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const first = parts.findIndex((part) => part !== '..');
  return first !== -1 && parts.lastIndexOf('..') > first;
}

function attributes(header: Header): Attributes {
  const time = header.mtime;
  const known = time.getTime() >= 0 && time.getTime() < MAX_TIME_MS;
  return { mode: header.mode & PERMISSIONS, time: known ? time : undefined };
}

/** Makes one thing in the new tree; what is there already came from the archive itself. */
async function made<T>(making: Promise<T>, name: string): Promise<T> {
  try {
    return await making;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' || code === 'ENOTDIR') throw refused('it has two entries of one name', name);
    throw error;
  }
}

function refused(what: string, name: string): BoxkiteError {
  return new BoxkiteError('archive_refused', `the directory can't be downloaded: ${what}`, {
    hint: 'Nothing was written. Leave out what is named, or raise the limit.',
    details: { name },
  });
}

/** Errors of the stream and ours are themselves; the rest is of this machine's disk, or of bytes that are no archive. */
function explained(error: unknown, mark: EndMark): unknown {
  if (error instanceof BoxkiteFailure) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new BoxkiteError('no_space', 'the disk of this machine is full', { hint: 'Make room on it.', cause: error });
  if (/^E[A-Z]+$/.test(code))
    return new BoxkiteError('io_error', `the directory can't be written (${code})`, { cause: error });
  const early = error instanceof Error && error.message === UNEXPECTED_END;
  if (early || mark.endedInEntry) return cutOff(error);
  return refused('it is no archive', '');
}

/** The name of an entry from the top of the tree; empty for the top itself. Errors: `archive_refused`. */
function checkedName(raw: string): string {
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (raw.startsWith('/')) throw refused('a path is absolute', raw);
  if (raw.includes('\0') || raw.includes('\ufffd')) throw refused('a name is not UTF-8', raw);
  if (parts.includes('..')) throw refused('a path leads out of it', raw);
  if (parts.length > MAX_DEPTH) throw refused(`a path is more than ${MAX_DEPTH} directories deep`, raw);
  if (parts.some((part) => Buffer.byteLength(part) > MAX_NAME_BYTES)) throw refused('a name is too long', raw);
  return parts.join('/');
}
