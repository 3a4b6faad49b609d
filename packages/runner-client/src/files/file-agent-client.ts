import type { Socket } from 'node:net';
import { AnswerStream, itemsOf } from './answer-stream.ts';
import {
  type ArchiveInOptions,
  type ArchiveInResult,
  type ArchiveOutEnd,
  decodeArchiveIn,
  decodeArchiveOut,
  encodeArchiveIn,
} from './archive.ts';
import { ask, type Request } from './calls.ts';
import { FileConnection } from './connection.ts';
import { decodeEntries, decodeStat, decodeStatAndTarget } from './decode.ts';
import { dataChunk, frameTypes } from './frames.ts';
import { encodePayload, type PathLike, PayloadReader } from './payload.ts';
import { FileReading } from './reading.ts';
import {
  decodeSearch,
  decodeSearchEnd,
  encodeSearch,
  type SearchEnd,
  type SearchOptions,
  type SearchRecord,
} from './search.ts';
import { TextBytes } from './text-bytes.ts';
import type { CallOptions, FileEntry, FileStat, ListEnd, ListOptions, ReadOptions, WriteOptions } from './types.ts';
import { type ByteSource, upload } from './upload.ts';
import { encodeTree, encodeWalk, type TreeOptions, type WalkEnd, type WalkOptions } from './walk.ts';
import { decodeEvents, type FileEvent } from './watch.ts';

const wholeFile = 0xffff_ffff_ffff_ffffn;
const keepMode = 0xffff_ffff;

/**
 * Speaks to one sandbox's file agent over a connected socket, which it owns. Calls run in parallel.
 * Paths are absolute inside the sandbox. Every method rejects with a FileAgentError, with a
 * FileAgentDisconnectedError when the connection ends, or with the reason of its signal.
 */
export class FileAgentClient implements Disposable {
  readonly #connection: FileConnection;

  constructor(socket: Socket) {
    this.#connection = new FileConnection(socket);
  }

  /** Attributes of what the path leads to, or with `follow: false` of a link itself, its target included. */
  async stat(path: PathLike, options: CallOptions & { readonly follow?: boolean } = {}): Promise<FileStat> {
    const flags = options.follow === false ? 1 : 0;
    const answer = await this.#ask(frameTypes.stat, flags, encodePayload(path), options);
    return decodeStatAndTarget(new PayloadReader(answer));
  }

  /** Reads a regular file as a stream; `meta()` has its attributes. Leaving the iteration early cancels the call. */
  read(path: PathLike, options: ReadOptions = {}): FileReading {
    const request = readRequest(path, options);
    return new FileReading(new AnswerStream(this.#connection, request, options.signal));
  }

  /** Reads a regular file, or the asked part of it, into memory. */
  async readAll(path: PathLike, options: ReadOptions = {}): Promise<Buffer> {
    return await this.read(path, options).all();
  }

  /** Writes a file, whole or not at all, and answers its attributes. */
  async write(path: PathLike, data: ByteSource, options: WriteOptions = {}): Promise<FileStat> {
    return decodeStat(await this.#write(path, data, options, false));
  }

  /** The same, and answers the SHA-256 of the data, which the agent makes while it writes. */
  async writeHashed(path: PathLike, data: ByteSource, options: WriteOptions = {}): Promise<Buffer> {
    const reader = await this.#write(path, data, options, true);
    decodeStat(reader);
    return reader.bytes();
  }

  async #write(path: PathLike, data: ByteSource, options: WriteOptions, hashed: boolean): Promise<PayloadReader> {
    const { createParents, exclusive, append, replaceLink, closed, unchanged, mode = keepMode } = options;
    const flags = bits(createParents, exclusive, append, false, replaceLink, unchanged !== undefined, closed, hashed);
    const type = frameTypes.write;
    const head = encodePayload(path, { u32: mode }, ...(unchanged === undefined ? [] : [unchanged]));
    const inline = data instanceof TextBytes ? data.whole(dataChunk) : data;
    const answer =
      inline instanceof Uint8Array && inline.length <= dataChunk
        ? await this.#ask(type, flags | 8, Buffer.concat([head, inline]), options)
        : await upload(this.#connection, { type, flags, payload: head }, data, options.signal);
    return new PayloadReader(answer);
  }

  /** Entries of one directory in byte order of their names; returns the cursor of the next page if there is one. */
  list(path: PathLike, options: ListOptions = {}): AsyncGenerator<FileEntry, ListEnd> {
    const { cursor = new Uint8Array(), limit = 0 } = options;
    const payload = encodePayload(path, cursor, { u32: limit });
    return this.#records({ type: frameTypes.list, flags: 0, payload }, options, decodeEntries, (end) => {
      const reader = new PayloadReader(end);
      return reader.u8() === 1 ? { cursor: reader.bytes() } : {};
    });
  }

  /** Makes a directory (0o755). With `parents` also those above it, and one that exists already is no error. */
  async mkdir(
    path: PathLike,
    options: CallOptions & { readonly parents?: boolean; readonly mode?: number } = {},
  ): Promise<void> {
    const payload = encodePayload(path, { u32: options.mode ?? 0o755 });
    await this.#ask(frameTypes.mkdir, bits(options.parents), payload, options);
  }

  /** Removes a file, a link or an empty directory; with `recursive` a whole tree. Answers how many entries went. */
  async remove(
    path: PathLike,
    options: CallOptions & { readonly recursive?: boolean; readonly missingOk?: boolean } = {},
  ): Promise<number> {
    const flags = bits(options.recursive, options.missingOk);
    const answer = await this.#ask(frameTypes.remove, flags, encodePayload(path), options);
    return new PayloadReader(answer).u64();
  }

  /** Renames within one file system, replacing what is there unless `replace` is false. */
  async rename(
    from: PathLike,
    to: PathLike,
    options: CallOptions & { readonly replace?: boolean; readonly createParents?: boolean } = {},
  ): Promise<void> {
    const flags = bits(options.replace === false, options.createParents);
    await this.#ask(frameTypes.rename, flags, encodePayload(from, to), options);
  }

  /**
   * Sets the nine permission bits of what the path leads to. With `reset` it is a directory, which also loses its extended
   * attributes and access lists, and may be given the sticky bit.
   */
  async chmod(path: PathLike, mode: number, options: CallOptions & { readonly reset?: boolean } = {}): Promise<void> {
    await this.#ask(frameTypes.chmod, bits(options.reset), encodePayload(path, { u32: mode }), options);
  }

  /** Makes a symbolic link at `path` that leads to `target`, whatever that is. */
  async symlink(target: PathLike, path: PathLike, options: CallOptions = {}): Promise<void> {
    await this.#ask(frameTypes.symlink, 0, encodePayload(target, path), options);
  }

  /** Entries of a tree, directories before what they contain, in byte order; no link is followed. */
  walk(path: PathLike, options: WalkOptions = {}): AsyncGenerator<FileEntry, WalkEnd> {
    const request = { type: frameTypes.walk, ...encodeWalk(path, options) };
    return this.#records(request, options, decodeEntries, (end) => {
      const reader = new PayloadReader(end);
      const more = reader.u8() === 1;
      const cursor = reader.bytes();
      const skipped = reader.u64();
      return more ? { cursor, skipped } : { skipped };
    });
  }

  /** Lines of a file or tree that match; a pattern that is none rejects with the code `pattern`. */
  search(path: PathLike, pattern: string, options: SearchOptions = {}): AsyncGenerator<SearchRecord, SearchEnd> {
    const request = { type: frameTypes.search, ...encodeSearch(path, pattern, options) };
    return this.#records(request, options, decodeSearch, decodeSearchEnd);
  }

  /** Watches a directory, recursively if asked for. Resolves when the watch is in place; leaving the iteration ends it. */
  async watch(
    path: PathLike,
    options: CallOptions & { readonly recursive?: boolean } = {},
  ): Promise<AsyncGenerator<FileEvent, void>> {
    const request = { type: frameTypes.watch, flags: bits(options.recursive), payload: encodePayload(path) };
    const stream = new AnswerStream(this.#connection, request, options.signal);
    await stream.meta();
    return itemsOf(stream, decodeEvents, () => undefined);
  }

  /** Unpacks a tar stream into a directory, which is made if it is missing: all of it, or nothing. */
  async archiveIn(path: PathLike, archive: ByteSource, options: ArchiveInOptions = {}): Promise<ArchiveInResult> {
    const request = { type: frameTypes.archiveIn, ...encodeArchiveIn(path, options) };
    return decodeArchiveIn(await upload(this.#connection, request, archive, options.signal));
  }

  /** A file or tree as a tar stream; returns what it contains. Hidden files are included. */
  archiveOut(
    path: PathLike,
    options: Pick<TreeOptions, 'signal' | 'maxDepth' | 'include' | 'exclude'> = {},
  ): AsyncGenerator<Uint8Array, ArchiveOutEnd> {
    const payload = Buffer.concat([encodePayload(path), encodeTree(options)]);
    const request = { type: frameTypes.archiveOut, flags: 0, payload };
    return this.#records(request, options, (piece) => [piece], decodeArchiveOut);
  }

  /** The SHA-256 of a regular file and the bytes it was made of. */
  async hash(path: PathLike, options: CallOptions = {}): Promise<{ readonly sha256: string; readonly size: number }> {
    const answer = await this.#ask(frameTypes.hash, 0, encodePayload(path, { u8: 1 }), options);
    const reader = new PayloadReader(answer);
    const size = reader.u64();
    return { size, sha256: reader.bytes().toString('hex') };
  }

  /** Ends the connection; the agent cancels what is in flight. */
  close(): void {
    this.#connection.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #ask(type: number, flags: number, payload: Uint8Array, options: CallOptions): Promise<Buffer> {
    return await ask(this.#connection, { type, flags, payload }, options.signal);
  }

  /** Yields the records of a call's batches and returns what its END says. */
  #records<T, R>(
    request: Request,
    options: CallOptions,
    decode: (batch: Buffer) => Iterable<T>,
    decodeEnd: (end: Buffer) => R,
  ): AsyncGenerator<T, R> {
    return itemsOf(() => new AnswerStream(this.#connection, request, options.signal), decode, decodeEnd);
  }
}

function readRequest(path: PathLike, options: ReadOptions): Request {
  const length = options.length ?? wholeFile;
  const payload = encodePayload(path, { u64: options.offset ?? 0 }, { u64: length });
  return { type: frameTypes.read, flags: 0, payload };
}

function bits(...flags: readonly (boolean | undefined)[]): number {
  return flags.reduce((sum, flag, bit) => sum | (flag === true ? 1 << bit : 0), 0);
}
