import { encodePayload, type PathLike } from './payload.ts';
import type { CallOptions } from './types.ts';

/** Which entries of a tree to visit. Globs are relative to where the walk begins: `*` stays within a name, `**` crosses directories. */
export interface TreeOptions extends CallOptions {
  /** Names that begin with a dot too. */
  readonly hidden?: boolean | undefined;
  /** Leave out what `.gitignore` and `.ignore` files on the way name, and `.git`. */
  readonly respectIgnoreFiles?: boolean | undefined;
  /** Names in the deepest path; 0 or absent: no limit. */
  readonly maxDepth?: number | undefined;
  /** Only paths that one of these globs matches. */
  readonly include?: readonly string[] | undefined;
  /** No path that one of these globs matches, and nothing below it. */
  readonly exclude?: readonly string[] | undefined;
}

/** How to walk a tree. */
export interface WalkOptions extends TreeOptions {
  /** Only directories, or everything but directories. */
  readonly only?: 'files' | 'directories' | undefined;
  /** The relative path after which to go on. */
  readonly cursor?: Uint8Array | undefined;
  /** 0 or absent: all. */
  readonly limit?: number | undefined;
}

/** The end of a walk. */
export interface WalkEnd {
  /** Where the next page begins, absent when this was the last. */
  readonly cursor?: Uint8Array;
  /** Directories and ignore files that could not be read. */
  readonly skipped: number;
}

/** The last fields of WALK, SEARCH and ARCHIVE_OUT: depth and globs. */
export function encodeTree(options: TreeOptions): Buffer {
  const list = (globs: readonly string[] = []) => encodePayload({ u32: globs.length }, ...globs);
  return Buffer.concat([encodePayload({ u32: options.maxDepth ?? 0 }), list(options.include), list(options.exclude)]);
}

/** The payload and flags of a WALK. */
export function encodeWalk(path: PathLike, options: WalkOptions): { readonly flags: number; readonly payload: Buffer } {
  const { cursor = new Uint8Array(), limit = 0, only } = options;
  const flags =
    (options.hidden === true ? 1 : 0) |
    (options.respectIgnoreFiles === true ? 2 : 0) |
    (only === 'files' ? 4 : 0) |
    (only === 'directories' ? 8 : 0);
  const payload = Buffer.concat([encodePayload(path, cursor, { u32: limit }), encodeTree(options)]);
  return { flags, payload };
}
