import { encodePayload, type PathLike, PayloadReader } from './payload.ts';
import type { CallOptions } from './types.ts';

/** How to take an archive in. It is taken whole or not at all. */
export interface ArchiveInOptions extends CallOptions {
  /** Make missing directories above the destination. */
  readonly createParents?: boolean | undefined;
  /** Fail with `exists` instead of replacing a file. */
  readonly keepExisting?: boolean | undefined;
  /** Members, extensions included, up to 1,000,000; 0 or absent: 200,000. */
  readonly maxEntries?: number | undefined;
  /** Bytes of contents; 0 or absent: what the file system takes. */
  readonly maxBytes?: number | undefined;
  /** Names in the deepest path, up to 256; 0 or absent: 100. */
  readonly maxDepth?: number | undefined;
}

/** What an archive contained. */
export interface ArchiveInResult {
  readonly entries: number;
  readonly bytes: number;
}

/** What an archive of a tree contains. */
export interface ArchiveOutEnd {
  readonly entries: number;
  readonly bytes: number;
  /** Unreadable files and directories, pipes, sockets, devices. */
  readonly skipped: number;
  /** Files that became shorter while they were read; the rest of each is zeros. */
  readonly changed: number;
}

/** The payload and flags of an ARCHIVE_IN. */
export function encodeArchiveIn(
  path: PathLike,
  options: ArchiveInOptions,
): { readonly flags: number; readonly payload: Buffer } {
  const flags = (options.createParents === true ? 1 : 0) | (options.keepExisting === true ? 2 : 0);
  const { maxEntries = 0, maxBytes = 0, maxDepth = 0 } = options;
  return { flags, payload: encodePayload(path, { u64: maxEntries }, { u64: maxBytes }, { u32: maxDepth }) };
}

/** Reads the end of an ARCHIVE_IN. */
export function decodeArchiveIn(payload: Uint8Array): ArchiveInResult {
  const reader = new PayloadReader(payload);
  return { entries: reader.u64(), bytes: reader.u64() };
}

/** Reads the end of an ARCHIVE_OUT. */
export function decodeArchiveOut(payload: Uint8Array): ArchiveOutEnd {
  const reader = new PayloadReader(payload);
  return { entries: reader.u64(), bytes: reader.u64(), skipped: reader.u64(), changed: reader.u64() };
}
