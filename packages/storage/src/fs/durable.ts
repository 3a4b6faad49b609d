/** Changes of directories that outlive a loss of power: what is renamed, made or removed is synced with its directory. */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rmdir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasCode, isMissing } from './errors.ts';

const DIRECTORY_MODE = 0o700;
/** How often a directory may be removed, as the last object in it is deleted, while another object is put there. */
const MOST_ATTEMPTS = 100;

/** Syncs directories; calls that wait for the same one share the next sync of it. */
export class DirectorySyncs {
  readonly #running = new Map<string, Promise<void>>();
  readonly #waiting = new Map<string, Promise<void>>();
  /** Calls that may have made a directory which is not synced into the one above it. One that failed stays. */
  unsynced = 0;

  /** Resolves when all that was changed in the directory before the call outlives a loss of power. */
  sync(path: string): Promise<void> {
    const waiting = this.#waiting.get(path);
    if (waiting !== undefined) return waiting;
    const running = this.#running.get(path);
    if (running === undefined) return this.#start(path);
    const next = running.then(
      () => this.#startWaiting(path),
      () => this.#startWaiting(path),
    );
    this.#waiting.set(path, next);
    return next;
  }

  #startWaiting(path: string): Promise<void> {
    this.#waiting.delete(path);
    return this.#start(path);
  }

  #start(path: string): Promise<void> {
    const running = syncDirectory(path).finally(() => {
      if (this.#running.get(path) === running) this.#running.delete(path);
    });
    this.#running.set(path, running);
    return running;
  }
}

/** Makes a directory and those above it, private. */
export async function makeDurably(path: string, syncs: DirectorySyncs): Promise<void> {
  syncs.unsynced += 1;
  const first = await mkdir(path, { recursive: true, mode: DIRECTORY_MODE });
  if (first !== undefined) {
    const stop = dirname(first);
    for (let made = path; made !== stop; made = dirname(made)) await syncIfThere(dirname(made), syncs);
  }
  syncs.unsynced -= 1;
}

/** Gives a synced file its place below `root`, over what is there. */
export async function placeDurably(root: string, staged: string, path: string, syncs: DirectorySyncs): Promise<void> {
  const directory = dirname(path);
  for (let attempt = 1; ; attempt += 1) {
    try {
      await rename(staged, path);
      // Those above it may be another call's, which has not synced them yet.
      const last = syncs.unsynced === 0 ? directory : root;
      await syncs.sync(directory);
      for (let above = directory; above !== last; ) {
        above = dirname(above);
        await syncs.sync(above);
      }
      return;
    } catch (error) {
      if (!hasCode(error, 'ENOENT') || attempt === MOST_ATTEMPTS) throw error;
      await makeDurably(directory, syncs);
    }
  }
}

/** Removes a file that may be missing, and the directories up to `root` that have nothing any more. */
export async function removeDurably(root: string, path: string, syncs: DirectorySyncs): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  for (let directory = dirname(path); ; directory = dirname(directory)) {
    if (directory !== root && (await removeEmpty(directory))) continue;
    try {
      return await syncs.sync(directory);
    } catch (error) {
      // Another removal has taken it: what is above it is to be synced.
      if (directory === root || !isMissing(error)) throw error;
    }
  }
}

/** Removes what was staged and never got its place. */
export async function removeStaged(directory: string): Promise<void> {
  let names: readonly string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  for (const name of names) await unlink(join(directory, name));
}

/** Writes all bytes behind what the file has. */
export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at);
    at += bytesWritten;
  }
}

/** A removal may have taken the directory, which it syncs itself. */
async function syncIfThere(path: string, syncs: DirectorySyncs): Promise<void> {
  try {
    await syncs.sync(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

async function removeEmpty(directory: string): Promise<boolean> {
  try {
    await rmdir(directory);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return true;
    if (hasCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) return false;
    throw error;
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
