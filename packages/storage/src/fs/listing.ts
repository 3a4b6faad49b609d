/** Pages of a directory's objects in byte order of their keys. */
import type { BigIntStats } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { isKey, prefixSegments } from '../keys.ts';
import type { ObjectInfo, ObjectPage, PageOptions } from '../object-store.ts';
import { isMissing } from './errors.ts';
import { directoryName, segmentOfDirectory, segmentOfObject } from './file-names.ts';

const MOST_OBJECTS = 1000;

/** What an object is. A put always makes a new file, so that its number and time tell versions apart. */
export function objectInfo(key: string, stat: BigIntStats): ObjectInfo {
  return {
    key,
    size: Number(stat.size),
    version: `${stat.ino.toString(36)}-${stat.mtimeNs.toString(36)}-${stat.size.toString(36)}`,
    modified_ms: Number(stat.mtimeMs),
  };
}

/** Errors: `invalid_request`. */
export async function pageOf(
  root: string,
  prefix: string,
  { after, limit = MOST_OBJECTS }: PageOptions,
  signal: AbortSignal | undefined,
): Promise<ObjectPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_OBJECTS) {
    throw new BoxkiteError('invalid_request', `a page has 1 to ${MOST_OBJECTS} objects`, {
      details: { field: 'limit' },
    });
  }
  const segments = prefixSegments(prefix);
  const base = join(root, ...segments.map(directoryName));
  const cursor = after === undefined ? null : Buffer.from(after);
  const objects: ObjectInfo[] = [];
  for await (const { key, path } of walk(base, prefix, cursor)) {
    signal?.throwIfAborted();
    const info = await look(key, path);
    if (info === null) continue;
    if (objects.length === limit) return { objects, next: objects.at(-1)?.key ?? null };
    objects.push(info);
  }
  return { objects, next: null };
}

interface Found {
  readonly key: string;
  readonly path: string;
}

/** What a name in a directory adds to the key: of a directory with the slash, so that the order is that of whole keys. */
interface Child {
  readonly word: Buffer;
  readonly text: string;
  readonly path: string;
  readonly isDirectory: boolean;
}

async function* walk(directory: string, prefix: string, after: Buffer | null): AsyncGenerator<Found, void, undefined> {
  for (const child of await childrenOf(directory)) {
    const key = prefix + child.text;
    if (child.isDirectory) {
      if (after === null || mayHaveLater(Buffer.from(key), after)) yield* walk(child.path, key, after);
    } else if (isKey(key) && (after === null || Buffer.compare(Buffer.from(key), after) > 0)) {
      yield { key, path: child.path };
    }
  }
}

/** Whether a key that begins so can come after another one. */
function mayHaveLater(prefix: Buffer, after: Buffer): boolean {
  return Buffer.compare(prefix, after.subarray(0, prefix.length)) >= 0;
}

async function childrenOf(directory: string): Promise<readonly Child[]> {
  let entries: Awaited<ReturnType<typeof readNames>>;
  try {
    entries = await readNames(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  const children: Child[] = [];
  for (const entry of entries) {
    const isDirectory = entry.isDirectory();
    // Whatever else somebody has put there is no object.
    if (!isDirectory && !entry.isFile()) continue;
    const segment = isDirectory ? segmentOfDirectory(entry.name) : segmentOfObject(entry.name);
    if (segment === null) continue;
    const text = isDirectory ? `${segment}/` : segment;
    children.push({ word: Buffer.from(text), text, path: join(directory, entry.name), isDirectory });
  }
  return children.sort((a, b) => Buffer.compare(a.word, b.word));
}

function readNames(directory: string) {
  return readdir(directory, { withFileTypes: true });
}

async function look(key: string, path: string): Promise<ObjectInfo | null> {
  try {
    return objectInfo(key, await lstat(path, { bigint: true }));
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
