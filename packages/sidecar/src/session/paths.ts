/** Paths as the reference's clients write them. Only words: what is outside does not exist for the file agent. */
import { posix } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';

const WORKSPACE = '/workspace';
const ROOTS = [WORKSPACE, '/mnt/user-data/uploads', '/mnt/user-data/outputs', '/mnt/skills', '/tmp'] as const;
const ALIASES: Readonly<Record<string, string>> = {
  uploads: '/mnt/user-data/uploads',
  outputs: '/mnt/user-data/outputs',
  skills: '/mnt/skills',
};

/** The absolute path that is meant. Errors: `bad_request`. */
export function canonicalPath(path: string): string {
  const plain = path.trim().replaceAll('\\', '/');
  if (plain === '' || plain.includes('\0')) {
    throw new BoxkiteError('bad_request', 'a path is needed, without NUL', { details: { field: 'path' } });
  }
  if (plain === '/') return WORKSPACE;
  if (plain.startsWith('/')) return alias(posix.normalize(plain));
  const relative = plain.replace(/^(?:\.\/+)+/, '').replace(/^workspace(?:\/+|$)/, '');
  return strip(posix.join(WORKSPACE, relative));
}

/** Whether a path is one of the five roots, or below one. */
export function isWithinRoots(path: string): boolean {
  return ROOTS.some((root) => path === root || path.startsWith(`${root}/`));
}

function alias(path: string): string {
  const [, first = '', rest = ''] = /^\/([^/]+)(\/.*)?$/.exec(path) ?? [];
  const root = Object.hasOwn(ALIASES, first) ? ALIASES[first] : undefined;
  return strip(root === undefined ? path : root + rest);
}

function strip(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}
