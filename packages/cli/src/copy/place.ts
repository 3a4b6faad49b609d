/** The two sides of `boxkite cp`. */
import { posix } from 'node:path';
import type { FileInfo, FilesPort } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import { mistake } from '../options.ts';

/** One side: a path of this machine, a path in a sandbox, or a standard stream. */
export type Place =
  | { readonly kind: 'local'; readonly path: string }
  | { readonly kind: 'sandbox'; readonly sandbox: string; readonly path: string }
  | { readonly kind: 'standard' };

const WORKSPACE = '/workspace';
const MAX_LINKS = 16;

/** `-`, `ID:PATH`, or a local path, in which a colon comes after the first slash: `./a:b`. */
export function placeOf(word: string): Place {
  if (word === '-') return { kind: 'standard' };
  const colon = word.indexOf(':');
  const slash = word.indexOf('/');
  if (colon === -1 || (slash !== -1 && slash < colon)) return { kind: 'local', path: word };
  if (colon === 0) throw mistake(`${word} names no sandbox`, 'Write ID:PATH.');
  // Relative paths start at the workspace, `..` included, so that names of targets are what they end in.
  const path = word.slice(colon + 1);
  const whole = posix.resolve(WORKSPACE, path);
  return {
    kind: 'sandbox',
    sandbox: word.slice(0, colon),
    path: /\/\.?$/.test(path) ? `${whole}${path.slice(path.lastIndexOf('/'))}` : whole,
  };
}

/** The path ends in `/.`: what is in the directory, without the directory. */
export function meansContents(path: string): boolean {
  return path === '.' || path.endsWith('/.');
}

/** What is there, links followed, with its real path; `null` where nothing is. */
export async function lookAt(
  files: FilesPort,
  path: string,
  signal: AbortSignal,
): Promise<(FileInfo & { readonly real: string }) | null> {
  let real = posix.resolve(WORKSPACE, path);
  for (let links = 0; links < MAX_LINKS; links += 1) {
    const found = await statOrNull(files, real, signal);
    if (found === null) return null;
    if (found.type !== 'symlink' || found.target === undefined) return { ...found, real };
    real = posix.resolve(posix.dirname(real), found.target);
  }
  throw new BoxkiteError('too_many_links', `${path} leads through too many links`);
}

async function statOrNull(files: FilesPort, path: string, signal: AbortSignal): Promise<FileInfo | null> {
  try {
    return await files.stat(path, signal);
  } catch (error) {
    if (error instanceof BoxkiteFailure && error.code === 'file_not_found') return null;
    throw error;
  }
}

/** A refusal of `boxkite cp`. */
export function refusal(message: string, hint: string): BoxkiteError {
  return mistake(message, hint);
}
