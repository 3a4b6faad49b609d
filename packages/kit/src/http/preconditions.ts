/** What a file was, for callers who replace only that. */
import type { FilePrecondition } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** The ETag of content with this SHA-256. */
export function etagOf(digest: Uint8Array): string {
  return `"${Buffer.from(digest).toString('hex')}"`;
}

/** Reads `If-Match` and `If-None-Match`; `null`: whatever is there. Errors: `invalid_request`. */
export function preconditionOf(headers: {
  readonly 'if-match'?: string | undefined;
  readonly 'if-none-match'?: string | undefined;
}): FilePrecondition | null {
  const { 'if-match': match, 'if-none-match': none } = headers;
  if (match !== undefined && none !== undefined) throw unusable('if-match', 'goes without If-None-Match');
  if (none !== undefined) {
    if (none.trim() !== '*') throw unusable('if-none-match', 'takes * alone: nothing may be at the path');
    return 'nothing';
  }
  if (match === undefined) return null;
  const [, hex] = /^\s*"([0-9a-f]{64})"\s*$/.exec(match) ?? [];
  if (hex === undefined)
    throw unusable('if-match', 'takes one ETag as answers about files have it: a SHA-256 in quotes');
  return { sha256: hex };
}

function unusable(field: string, rule: string): BoxkiteError {
  return new BoxkiteError('invalid_request', `${field}: ${rule}`, { details: { field } });
}
