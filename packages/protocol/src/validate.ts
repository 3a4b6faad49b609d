import type { z } from 'zod';
import { BoxkiteError } from './errors.ts';

/**
 * Checks a value against a schema. Throws `invalid_request`, whose `details` name the first field that is wrong and all
 * problems in words, never the input.
 */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => problemOf(issue, value));
  const first = result.error.issues[0];
  const field = first === undefined ? 'request' : fieldOf(first.path);
  throw new BoxkiteError('invalid_request', problems[0] ?? 'the request is not valid', {
    details: { field, problems },
    cause: result.error,
  });
}

/** Whoever has left out a field, or has misspelt it, reads of no types. */
function problemOf(issue: z.core.$ZodIssue, value: unknown): string {
  const { code, path } = issue;
  const field = fieldOf(path);
  const absent = path.length > 0 && at(value, path) === undefined;
  return absent && (code === 'invalid_type' || code === 'invalid_union')
    ? `${field} is missing`
    : `${field}: ${boundOf(issue) ?? issue.message}`;
}

const UNITS: Readonly<Record<string, string>> = { string: 'character', array: 'item' };

/** What a number or a length is to be, in words that a person can follow; `null` for any other problem. */
function boundOf(issue: z.core.$ZodIssue): string | null {
  if (issue.code !== 'too_small' && issue.code !== 'too_big') return null;
  const [end, limit] = issue.code === 'too_small' ? ['at least', issue.minimum] : ['at most', issue.maximum];
  const unit = UNITS[issue.origin];
  if (unit !== undefined) return `must have ${end} ${limit} ${unit}${Number(limit) === 1 ? '' : 's'}`;
  return issue.origin === 'number' && issue.inclusive !== false ? `must be ${end} ${limit}` : null;
}

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (found, key) => (typeof found === 'object' && found !== null ? Reflect.get(found, key) : undefined),
    value,
  );
}

/** A path such as `limits.pids` or `argv.1`; a key of `env` or `secret_env` is the caller's data and is left out. */
function fieldOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'request';
  return path[0] === 'env' || path[0] === 'secret_env' ? path[0] : path.map(String).join('.');
}
