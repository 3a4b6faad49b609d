import { encodePayload, type PathLike, PayloadReader } from './payload.ts';
import { encodeTree, type TreeOptions } from './walk.ts';

/** How to search. The pattern has the syntax of Rust's `regex` crate and is matched line by line. */
export interface SearchOptions extends TreeOptions {
  readonly ignoreCase?: boolean | undefined;
  /** The pattern is plain text. */
  readonly fixed?: boolean | undefined;
  /** Only whole words. */
  readonly word?: boolean | undefined;
  /** Search files with a NUL byte to their end, as if they were text. */
  readonly binaryAsText?: boolean | undefined;
  /** Lines of context, up to 1,000. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  /** Matching lines in all; 0 or absent: no limit. */
  readonly maxMatches?: number | undefined;
  /** Matching lines per file; 0 or absent: no limit. */
  readonly maxPerFile?: number | undefined;
  /** Larger files are skipped, in bytes; 0 or absent: no limit. */
  readonly maxFileBytes?: number | undefined;
  /** Bytes to read in all, after which the search ends as truncated; 0 or absent: no limit. */
  readonly maxBytes?: number | undefined;
  /** `include` has a shell's globs: `*` crosses directories, and the name alone or the whole path may match as well. */
  readonly shellGlobs?: boolean | undefined;
}

/** A line that matches, a line of context, or that and why a file was not searched to its end (`binary` only behind a match). */
export interface SearchRecord {
  readonly kind: 'match' | 'context' | 'binary' | 'unsearched';
  readonly path: string;
  readonly pathBytes: Uint8Array;
  /** From 1; 0 for `binary` and `unsearched`. */
  readonly line: number;
  /** Where the line begins, or the NUL byte of a `binary`, in bytes. */
  readonly offset: number;
  /** Begin and end of each match in the line, in bytes; up to 128. */
  readonly spans: readonly (readonly [start: number, end: number])[];
  /** The line with its end, up to 16 KiB of it; for `unsearched` the reason. */
  readonly bytes: Uint8Array;
  /** Length of the whole line in bytes. */
  readonly length: number;
}

/** The end of a search. */
export interface SearchEnd {
  readonly matches: number;
  readonly files: number;
  readonly filesMatched: number;
  /** Files and directories that could not be read or were too large. */
  readonly skipped: number;
  /** Files with a NUL byte, which were not searched behind it. */
  readonly binary: number;
  /** Whether `maxMatches` or `maxBytes` ended the search. */
  readonly truncated: boolean;
}

const kinds = ['match', 'context', 'binary', 'unsearched'] as const;

/** The payload and flags of a SEARCH. */
export function encodeSearch(
  path: PathLike,
  pattern: string,
  options: SearchOptions,
): { readonly flags: number; readonly payload: Buffer } {
  const flags = [
    options.ignoreCase,
    options.fixed,
    options.word,
    options.hidden,
    options.respectIgnoreFiles,
    options.binaryAsText,
    options.shellGlobs,
  ].reduce((sum, flag, bit) => sum | (flag === true ? 1 << bit : 0), 0);
  const fields = encodePayload(
    path,
    pattern,
    { u32: options.before ?? 0 },
    { u32: options.after ?? 0 },
    { u64: options.maxMatches ?? 0 },
    { u64: options.maxPerFile ?? 0 },
    { u64: options.maxFileBytes ?? 0 },
    { u64: options.maxBytes ?? 0 },
  );
  return { flags, payload: Buffer.concat([fields, encodeTree(options)]) };
}

/** Reads all records of a batch. */
export function* decodeSearch(batch: Uint8Array): Generator<SearchRecord> {
  const reader = new PayloadReader(batch);
  while (reader.more) {
    const kind = kinds[reader.u8() - 1];
    if (kind === undefined) throw new RangeError('an unknown record of a search');
    const pathBytes = reader.bytes();
    const line = reader.u64();
    const offset = reader.u64();
    const spans = Array.from({ length: reader.u32() }, () => [reader.u32(), reader.u32()] as const);
    const length = reader.u32();
    yield { kind, path: pathBytes.toString(), pathBytes, line, offset, spans, length, bytes: reader.bytes() };
  }
}

/** Reads the end of a search. */
export function decodeSearchEnd(payload: Uint8Array): SearchEnd {
  const reader = new PayloadReader(payload);
  return {
    matches: reader.u64(),
    files: reader.u64(),
    filesMatched: reader.u64(),
    skipped: reader.u64(),
    binary: reader.u64(),
    truncated: reader.u8() === 1,
  };
}
