/**
 * Keys as paths of a directory. A store may have both `a` and `a/b`, a file system may not: a directory's name ends with a
 * plus, and an object's name that would look like a directory's or an escaped one ends with a percent sign more.
 */
import { join } from 'node:path';
import { checkKey } from '../keys.ts';

/** The path of an object, relative to where objects are kept. Errors: `invalid_request`. */
export function objectPath(key: string): string {
  checkKey(key);
  const segments = key.split('/');
  const name = segments.pop() ?? '';
  return join(...segments.map(directoryName), /[+%]$/.test(name) ? `${name}%` : name);
}

/** The name of the directory that has the objects below a segment. */
export function directoryName(segment: string): string {
  return `${segment}+`;
}

/** The segment that a directory's name stands for; `null` where it is none of ours. */
export function segmentOfDirectory(name: string): string | null {
  return name.endsWith('+') ? name.slice(0, -1) : null;
}

/** The segment that an object's name stands for; `null` where it is none of ours. */
export function segmentOfObject(name: string): string | null {
  if (name.endsWith('+')) return null;
  return name.endsWith('%') ? name.slice(0, -1) : name;
}
