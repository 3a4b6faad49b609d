/** Lines that match, within the limits of the deployment. */
import { posix } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles, SearchRecord } from '@boxkite/runner-client';
import type { Redaction } from '../session/redaction.ts';
import type { SidecarSettings } from '../settings.ts';
import { wholeCharacters } from './line-view.ts';
import { shellGlob } from './shell-glob.ts';

/** Characters of a line that are shown. */
const MOST_LINE = 2000;

/** What to look for. */
export interface GrepRequest {
  /** Of Rust's `regex` crate. */
  readonly pattern: string;
  /** Absolute: a file or a directory. */
  readonly path: string;
  readonly glob: string | null;
  readonly maxMatches: number;
}

/** One line. */
export interface GrepMatch {
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly text: string;
  /** Only where it is true. */
  readonly line_truncated?: true;
}

/** The answer: always one, whatever the pattern is. */
export interface GrepResult {
  readonly matches: readonly GrepMatch[];
  readonly error: string | null;
  readonly truncated: boolean;
}

/** A path that is not there, or can't be looked into, has no matches. */
const NOTHING: ReadonlySet<string> = new Set([
  'file_not_found',
  'not_a_directory',
  'not_a_file',
  'permission_denied',
  'outside_roots',
  'too_many_links',
]);

/** Looks. What was found by the deadline is in the answer. */
export async function grep(
  files: RunnerFiles,
  redaction: Redaction,
  limits: SidecarSettings['grep'],
  request: GrepRequest,
  signal: AbortSignal,
): Promise<GrepResult> {
  const { path, pattern, glob, maxMatches } = request;
  const deadline = AbortSignal.timeout(limits.timeoutSeconds * 1000);
  const either = AbortSignal.any([signal, deadline]);
  const options = {
    hidden: true,
    include: glob === null ? [] : [shellGlob(glob)],
    shellGlobs: true,
    maxBytes: limits.maxBytesScanned,
    maxMatches,
    signal: either,
  };
  const matches: GrepMatch[] = [];
  const shown = (error: string | null, truncated: boolean): GrepResult => ({ matches, error, truncated });
  try {
    const truncated = await files.agent(
      path,
      async (client) => {
        // A call that is made again begins anew.
        matches.length = 0;
        const isFile = (await client.stat(path, { signal: either })).type === 'file';
        const records = client.search(path, pattern, options);
        let next = await records.next();
        for (; next.done !== true; next = await records.next()) {
          if (next.value.kind === 'match') matches.push(matchOf(next.value, isFile ? null : path, path, redaction));
        }
        return next.value.truncated;
      },
      either,
    );
    return shown(null, truncated);
  } catch (error) {
    if (deadline.aborted && !signal.aborted) {
      return shown(`the search took longer than ${limits.timeoutSeconds} seconds and was stopped`, true);
    }
    if (!(error instanceof BoxkiteError)) throw error;
    if (error.code === 'invalid_request') return shown(redaction.output(reasonOf(error)), false);
    if (NOTHING.has(error.code)) return shown(null, false);
    throw error;
  }
}

function matchOf(record: SearchRecord, base: string | null, path: string, redaction: Redaction): GrepMatch {
  const whole = Buffer.from(record.bytes.buffer, record.bytes.byteOffset, record.bytes.byteLength)
    .toString()
    .replace(/\r?\n$/, '');
  const isCut = record.length > record.bytes.length;
  const text = redaction.shownLine(whole, isCut);
  const truncated = isCut || text.length > MOST_LINE;
  return {
    path: base === null ? path : posix.join(base, record.path),
    line: record.line,
    text: wholeCharacters(text, MOST_LINE),
    ...(truncated ? { line_truncated: true } : {}),
  };
}

function reasonOf({ details, message }: BoxkiteError): string {
  const { reason } = details;
  return typeof reason === 'string' ? reason : message;
}
