/** Paths of `/v1`. */
import { BoxkiteError } from '@boxkite/protocol';

/** Ids never need encoding; anything else is no id, and would lead to another route. */
const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,199}$/;

function checkedId(id: string, what: string): string {
  if (typeof id === 'string' && ID.test(id)) return id;
  throw new BoxkiteError('not_found', `there is no ${what} of that id`, { details: { field: 'id' } });
}

/** Errors: `not_found` for what can't be an id. */
export function sandboxPath(id: string, rest = ''): string {
  return `/v1/sandboxes/${checkedId(id, 'sandbox')}${rest}`;
}

/** Errors: `not_found` for what can't be an id. */
export function execPath(sandbox: string, exec: string, rest = ''): string {
  return sandboxPath(sandbox, `/execs/${checkedId(exec, 'exec')}${rest}`);
}

/** A path with the query of the values that are defined. Errors: `invalid_request`. */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parts.push(`${name}=${encoded(name, String(value))}`);
  }
  return parts.length === 0 ? path : `${path}?${parts.join('&')}`;
}

function encoded(field: string, value: string): string {
  if (value.isWellFormed()) return encodeURIComponent(value);
  throw new BoxkiteError('invalid_request', `${field} is to be well-formed Unicode`, { details: { field } });
}
