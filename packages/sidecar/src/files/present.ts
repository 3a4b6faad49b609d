/** Putting files among the outputs and into the store, for people to fetch. */
import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { BoxkiteError, type FileInfo } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { contentTypeOf, sampleBytes } from './content-type.ts';
import { rootedPath } from './rooted-path.ts';
import type { FileStore } from './session-files.ts';

const OUTPUTS = '/mnt/user-data/outputs';
/** What is not there, or is no file, is left out. */
const ABSENT: ReadonlySet<string> = new Set(['file_not_found', 'not_a_directory', 'too_many_links']);
/** Times that a copy is made, where somebody writes one of the two files meanwhile. */
const MOST_TRIES = 3;

/** A file that is in the store. */
export interface PresentedFile {
  /** As it was asked for. */
  readonly file_path: string;
  /** Where it is among the outputs. */
  readonly presented_path: string;
  readonly storage_key: string;
  readonly size: number;
  readonly content_type: string;
}

/** What became of all of them. */
export interface Presentation {
  readonly files: readonly PresentedFile[];
  readonly copy_operations: readonly string[];
  readonly skipped: readonly { readonly file_path: string; readonly reason: string }[];
}

interface Place {
  readonly from: string;
  readonly to: string;
}

/** Errors: `bad_request` for a path outside of the roots, or without a store; `file_busy`; those of copying and storing. */
export async function presentFiles(
  files: RunnerFiles,
  store: FileStore,
  asked: readonly string[],
  signal: AbortSignal,
): Promise<Presentation> {
  const paths = [...new Set(asked.map(rootedPath))];
  // Says why nothing is stored, before anything is copied.
  if (store.prefix === null) await store.present([]);
  const skipped: { file_path: string; reason: string }[] = [];
  const found: FileInfo[] = [];
  for (const path of paths) {
    const info = await fileAt(files, path, signal);
    if (typeof info === 'string') skipped.push({ file_path: path, reason: info });
    else found.push(info);
  }
  const places = placesOf(found.map(({ path }) => path));
  const copied: string[] = [];
  for (const { from, to } of places) {
    if (from === to) continue;
    await copy(files, { from, to }, signal);
    copied.push(`Copied ${from} to ${to}`);
  }
  const keys = new Map((await store.present(places.map(({ to }) => to))).map((one) => [one.path, one.storage_key]));
  const presented: PresentedFile[] = [];
  for (const { from, to } of places) {
    const storage_key = keys.get(to);
    if (storage_key === undefined) skipped.push({ file_path: from, reason: 'is not stored' });
    else presented.push({ file_path: from, presented_path: to, storage_key, ...(await described(files, to, signal)) });
  }
  return { files: presented, copy_operations: copied, skipped };
}

/**
 * Where each goes: what is among the outputs stays, all else goes to their top by its bare name. No two of a call go to the
 * same place: the later one gets a number.
 */
export function placesOf(paths: readonly string[]): readonly Place[] {
  const taken = new Set(paths.filter(isOutput));
  return paths.map((from) => {
    if (isOutput(from)) return { from, to: from };
    const { name, ext } = posix.parse(from);
    let to = `${OUTPUTS}/${name}${ext}`;
    for (let number = 2; taken.has(to); number += 1) to = `${OUTPUTS}/${name}-${number}${ext}`;
    taken.add(to);
    return { from, to };
  });
}

function isOutput(path: string): boolean {
  return path.startsWith(`${OUTPUTS}/`);
}

async function fileAt(files: RunnerFiles, path: string, signal: AbortSignal): Promise<FileInfo | string> {
  try {
    const info = await files.stat(path, signal, { follow: true });
    return info.type === 'file' ? info : 'is not a regular file';
  } catch (error) {
    if (error instanceof BoxkiteError && ABSENT.has(error.code)) return 'is not there';
    throw error;
  }
}

/** With the mode. What is in place afterwards is what was read, or the call fails. */
async function copy(files: RunnerFiles, { from, to }: Place, signal: AbortSignal): Promise<void> {
  for (let tries = 1; tries <= MOST_TRIES; tries += 1) {
    const copied = await files.agent(
      from,
      async (client) => {
        const reading = client.read(from, { signal });
        try {
          const { mode } = await reading.meta();
          const hash = createHash('sha256');
          await client.write(to, hashed(reading, hash), { mode: mode & 0o777, closed: true, signal });
          return hash.digest('hex');
        } finally {
          reading.close();
        }
      },
      signal,
      'once',
    );
    const { sha256 } = await files.agent(to, (client) => client.hash(to, { signal }), signal);
    if (sha256 === copied) return;
  }
  throw new BoxkiteError('file_busy', `${to} is written by somebody else while ${from} is copied to it`);
}

async function* hashed(
  source: AsyncIterable<Uint8Array>,
  hash: { update(bytes: Uint8Array): unknown },
): AsyncGenerator<Uint8Array> {
  for await (const bytes of source) {
    hash.update(bytes);
    yield bytes;
  }
}

async function described(
  files: RunnerFiles,
  path: string,
  signal: AbortSignal,
): Promise<{ readonly size: number; readonly content_type: string }> {
  const { size } = await files.stat(path, signal, { follow: true });
  const parts: Uint8Array[] = [];
  for await (const part of files.read(path, { length: sampleBytes }, signal)) parts.push(part);
  return { size, content_type: contentTypeOf(path, Buffer.concat(parts)) };
}
