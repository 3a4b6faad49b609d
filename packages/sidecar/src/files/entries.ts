/** Entries of lists as the reference shows them. */
import { posix } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { FileInfo } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { isWithinRoots } from '../session/paths.ts';
import { deepGlob } from './shell-glob.ts';

/** One entry. */
export interface Entry {
  /** With a slash at the end of a directory. */
  readonly path: string;
  readonly is_dir: boolean;
  readonly size: number;
  /** UTC, without a zone. */
  readonly modified_at: string;
}

/** A part of a list, and where the next one begins. */
export interface Page {
  readonly entries: readonly Entry[];
  readonly next: string | null;
}

/** What is not there, or can't be looked into, has no entries. */
const EMPTY: ReadonlySet<string> = new Set([
  'file_not_found',
  'not_a_directory',
  'permission_denied',
  'outside_roots',
  'too_many_links',
]);
/** Links of a glob that are looked at together. */
const AT_ONCE = 32;
/** Entries of a page between two looks at other work: what has arrived already would be handled without any. */
const IN_A_ROW = 1000;

/** Direct children, in the order of their names. */
export async function* entriesOf(files: RunnerFiles, path: string, signal: AbortSignal): AsyncGenerator<Entry> {
  try {
    for await (const info of files.list(path, signal)) {
      const entry = entryOf(info);
      if (entry !== null) yield entry;
    }
  } catch (error) {
    if (!isEmpty(error)) throw error;
  }
}

/** The same by pages of `limit`. Errors: `invalid_request` for a cursor that is none. */
export async function pageOf(
  files: RunnerFiles,
  { path, limit, cursor }: { readonly path: string; readonly limit: number; readonly cursor: string | null },
  signal: AbortSignal,
): Promise<Page> {
  const options = { limit, cursor: cursorBytes(cursor), signal };
  return page(files, path, signal, async (client, entries) => {
    const reading = client.list(path, options);
    let next = await reading.next();
    for (let read = 1; next.done !== true; next = await reading.next(), read += 1) {
      addEntry(entries, path, next.value);
      if (read % IN_A_ROW === 0) await setImmediate();
    }
    return next.value.cursor;
  });
}

/** Regular files at any depth that a glob of the reference matches, and links to such. */
export async function* globbed(
  files: RunnerFiles,
  path: string,
  pattern: string,
  signal: AbortSignal,
): AsyncGenerator<Entry> {
  const glob = deepGlob(pattern);
  if (glob === null) return;
  const walk = files.agentStream(
    path,
    (client) => client.walk(path, { include: [glob], hidden: true, only: 'files', signal }),
    signal,
  );
  let waiting: FileInfo[] = [];
  try {
    for await (const found of walk) {
      if (found.type !== 'file' && found.type !== 'symlink') continue;
      waiting.push(infoOf(path, found));
      if (waiting.length < AT_ONCE) continue;
      yield* filesAmong(files, waiting, signal);
      waiting = [];
    }
  } catch (error) {
    if (!isEmpty(error) && !isBadGlob(error)) throw error;
  }
  yield* filesAmong(files, waiting, signal);
}

/** The same by pages of `limit` places of the walk. */
export async function globPage(
  files: RunnerFiles,
  asked: { readonly path: string; readonly pattern: string; readonly limit: number; readonly cursor: string | null },
  signal: AbortSignal,
): Promise<Page> {
  const { path, pattern, limit } = asked;
  const glob = deepGlob(pattern);
  if (glob === null) return { entries: [], next: null };
  const options = { include: [glob], hidden: true, only: 'files', limit, signal } as const;
  const cursor = cursorBytes(asked.cursor);
  const found: FileInfo[] = [];
  try {
    const { next } = await page(files, path, signal, async (client) => {
      const reading = client.walk(path, { ...options, cursor });
      let step = await reading.next();
      for (; step.done !== true; step = await reading.next()) {
        found.push(infoOf(path, step.value));
        if (found.length % IN_A_ROW === 0) await setImmediate();
      }
      return step.value.cursor;
    });
    const entries: Entry[] = [];
    for await (const entry of filesAmong(files, found, signal)) entries.push(entry);
    return { entries, next };
  } catch (error) {
    if (isBadGlob(error)) return { entries: [], next: null };
    throw error;
  }
}

type Client = Parameters<Parameters<RunnerFiles['agent']>[1]>[0];
type Found = Parameters<typeof infoOf>[1];

async function page(
  files: RunnerFiles,
  path: string,
  signal: AbortSignal,
  read: (client: Client, entries: Entry[]) => Promise<Uint8Array | undefined>,
): Promise<Page> {
  try {
    return await files.agent(
      path,
      async (client) => {
        const entries: Entry[] = [];
        const cursor = await read(client, entries);
        return { entries, next: cursor === undefined ? null : Buffer.from(cursor).toString('base64url') };
      },
      signal,
    );
  } catch (error) {
    if (!isEmpty(error)) throw error;
    return { entries: [], next: null };
  }
}

function addEntry(entries: Entry[], path: string, found: Found): void {
  const entry = entryOf(infoOf(path, found));
  if (entry !== null) entries.push(entry);
}

/** In their order. A link that leads to no regular file within the roots is as if it were not there. */
async function* filesAmong(files: RunnerFiles, found: readonly FileInfo[], signal: AbortSignal): AsyncGenerator<Entry> {
  const isFile = await Promise.all(
    found.map(async (info) =>
      info.target === undefined ? info.type === 'file' : leadsToFile(files, info.path, signal),
    ),
  );
  for (const [index, info] of found.entries()) {
    const entry = isFile[index] === true ? entryOf(info) : null;
    if (entry !== null) yield entry;
  }
}

async function leadsToFile(files: RunnerFiles, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await files.stat(path, signal, { follow: true })).type === 'file';
  } catch (error) {
    if (isEmpty(error)) return false;
    throw error;
  }
}

/** A link is shown as what it leads to; one that leads out of the roots is not shown. */
function entryOf({ path, type, size, modified_ms, target }: FileInfo): Entry | null {
  const shown = target === undefined ? path : posix.resolve(posix.dirname(path), target);
  if (target !== undefined && !isWithinRoots(shown)) return null;
  const is_dir = type === 'directory';
  return {
    path: is_dir ? `${shown}/` : shown,
    is_dir,
    size: is_dir ? 0 : size,
    modified_at: new Date(Math.max(0, modified_ms)).toISOString().slice(0, -1),
  };
}

function infoOf(
  base: string,
  found: {
    readonly path: string;
    readonly type: string;
    readonly size: number;
    readonly mode: number;
    readonly mtimeMs: number;
    readonly target?: Uint8Array;
  },
): FileInfo {
  const path = posix.join(base, found.path);
  const { type, size, mode, target } = found;
  return {
    name: posix.basename(path),
    path,
    type: type === 'file' || type === 'directory' || type === 'symlink' ? type : 'other',
    size,
    mode,
    modified_ms: Math.floor(found.mtimeMs),
    ...(target === undefined ? {} : { target: Buffer.from(target).toString() }),
  };
}

function cursorBytes(cursor: string | null): Uint8Array | undefined {
  if (cursor === null) return undefined;
  const bytes = Buffer.from(cursor, 'base64url');
  if (bytes.length > 0 && bytes.toString('base64url') === cursor) return bytes;
  throw new BoxkiteError('invalid_request', 'cursor: must be the next_cursor of the page before', {
    details: { field: 'cursor' },
  });
}

function isEmpty(error: unknown): boolean {
  return error instanceof BoxkiteError && EMPTY.has(error.code);
}

/** What the agent can't read as a glob matches nothing, as in the reference. */
function isBadGlob(error: unknown): boolean {
  return error instanceof BoxkiteError && error.code === 'invalid_request';
}
