/** What a path is. */
export type FileType =
  | 'unknown'
  | 'file'
  | 'directory'
  | 'symlink'
  | 'fifo'
  | 'socket'
  | 'character_device'
  | 'block_device';

/** Attributes of a file. */
export interface FileStat {
  readonly type: FileType;
  /** Permission bits, up to 0o7777. */
  readonly mode: number;
  /** Bytes. */
  readonly size: number;
  /** Milliseconds since 1970 of the last change, with fractions. */
  readonly mtimeMs: number;
  /** Names that the file has. */
  readonly links: number;
  readonly inode: number;
  /** Where a link leads, present only for links that were not followed. */
  readonly target?: Uint8Array;
}

/** An entry of a listing. `path` is relative to where the listing began; `bytes` is it as the file system has it. */
export interface FileEntry extends FileStat {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** Every call can be cancelled; what it had not committed is undone by the agent. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Which part of a file to read, in bytes; by default all of it. */
export interface ReadOptions extends CallOptions {
  readonly offset?: number | undefined;
  readonly length?: number | undefined;
}

/** How to write a file. It appears whole or not at all. */
export interface WriteOptions extends CallOptions {
  /** Nine permission bits. Without it an existing file keeps its own and a new one has 0o644. */
  readonly mode?: number | undefined;
  /** Make missing directories above it. */
  readonly createParents?: boolean | undefined;
  /** Fail with `exists` if there is something at the path. */
  readonly exclusive?: boolean | undefined;
  /** Put the content behind what the file has. Excludes `exclusive`. */
  readonly append?: boolean | undefined;
  /** Replace a link at the path itself; by default what it leads to is written. */
  readonly replaceLink?: boolean | undefined;
  /**
   * Replace only a file whose content has this SHA-256: whatever else is there stays, and the call rejects with `changed`.
   * Up to 64 MiB are compared. Excludes `exclusive` and `append`.
   */
  readonly unchanged?: Uint8Array | undefined;
  /** Replace a file that is closed for writing too; it keeps its mode. */
  readonly closed?: boolean | undefined;
}

/** One page of a directory: names above `cursor` in byte order, `limit` of them (0 or absent: all). */
export interface ListOptions extends CallOptions {
  readonly cursor?: Uint8Array | undefined;
  readonly limit?: number | undefined;
}

/** The end of a listing: the cursor of the next page, absent when this was the last. */
export interface ListEnd {
  readonly cursor?: Uint8Array;
}
