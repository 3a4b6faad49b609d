/** Directories of this machine, by tar streams both ways. */
import { mkdtempSync, realpathSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { PackEnd } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { Directories } from '../directories.ts';
import { checkTarget, finishDirectories, moveInto } from './place-tree.ts';
import { unpackTree } from './unpack-tree.ts';

/** See `Directories`. */
export const checkSource: Directories['checkSource'] = (directory, field) => {
  const refuse = (what: string, cause?: unknown): never => {
    throw new BoxkiteError('invalid_request', `${field}: ${directory} ${what}`, {
      hint: 'Give the path of a directory that you can read.',
      details: { field },
      cause,
    });
  };
  if (typeof directory !== 'string' || directory === '' || directory.includes('\0')) return refuse('is no path');
  let found: string;
  try {
    found = realpathSync(directory);
  } catch (error) {
    return refuse('is not there, or may not be read by you', error);
  }
  return statSync(found).isDirectory() ? found : refuse('is not a directory');
};

/** See `Directories`. A copy into a new sandbox is measured against all its room before anything is sent. */
export const uploadDirectory: Directories['uploadDirectory'] = async (sandbox, local, remote, options) => {
  const top = checkSource(local, options.field ?? 'local');
  const { filter, onNote, signal } = options;
  const { measureTree, packTree } = await import('#local');
  const keep: Parameters<typeof packTree>[2] =
    filter === undefined
      ? undefined
      : (entry) => filter({ path: entry.name, type: entry.kind, size: entry.kind === 'file' ? entry.stats.size : 0 });
  if (options.field === 'copy' || onNote !== undefined) {
    const room = options.field === 'copy' ? sandbox.effective.workspace : null;
    const { skipped } = await measureTree(top, room ?? { bytes: Infinity, inodes: Infinity }, signal, keep);
    for (const name of skipped) onNote?.(`${local}/${name} is a device, socket or pipe and was not copied`);
  }
  await sandbox.files.unpack(remote, packTree(top, signal, keep), signal);
};

const DEFAULT_MAX_BYTES = 4 * 1024 ** 3;
const DEFAULT_MAX_ENTRIES = 262_144;

/** See `Directories`. The tree grows beside its target and is moved there whole: a failed call leaves the target as it was. */
export const downloadDirectory: Directories['downloadDirectory'] = async (files, remote, local, options) => {
  const target = resolve(local);
  const { merge = false, links = 'refuse', signal } = options;
  await checkTarget(target, merge);
  const rules = {
    links,
    maxBytes: options.max_bytes ?? DEFAULT_MAX_BYTES,
    maxEntries: options.max_entries ?? DEFAULT_MAX_ENTRIES,
    signal,
  };
  const staging = makeStaging(target);
  const stop = new AbortController();
  try {
    const lacking: { end?: PackEnd } = {};
    const either = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]);
    const tar = files.pack(remote, either, (end) => {
      lacking.end = end;
    });
    const { report, directories } = await unpackTree(tar, staging, rules);
    const kept = await moveInto(staging, target, merge);
    await finishDirectories(target, directories, kept);
    return { ...report, ...(lacking.end ?? { omitted: null, cut: null }) };
  } finally {
    // A refusal does not wait for the rest of the stream.
    stop.abort();
    // Until it is in place every directory of it is open to its owner.
    await rm(staging, { recursive: true, force: true });
  }
};

function makeStaging(target: string): string {
  try {
    return mkdtempSync(join(dirname(target), `.${basename(target).slice(0, 100)}.boxkite-`));
  } catch (error) {
    throw new BoxkiteError('invalid_request', `nothing can be made in ${dirname(target)}`, {
      hint: 'Give a target whose parent directory exists and can be written by you.',
      details: { field: 'local' },
      cause: error,
    });
  }
}
