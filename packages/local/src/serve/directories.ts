/** Makes the directories of a service, and refuses those that somebody else could change under it. */
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { ensureOwn } from '../private-directory.ts';
import { isAlive, RECORD_NAME, readRecord, runDirectory, runs, startTicks } from './daemon-record.ts';
import type { ServicePlaces } from './places.ts';
import { chooseServiceId } from './service-id.ts';

const OWNER_DEADLINE_MS = 1000;
const POLL_MS = 10;
const STICKY = 0o1000;
/** In the root of a file system of its own; and the locks of ids, which runners of a user keep where the daemon's data lie. */
const NOBODYS_DATA: ReadonlySet<string> = new Set(['lost+found', 'ids']);
/** Of a path on which root's programs lie; a user's own group may well be another name of the user. */
const WRITABLE_BY_OTHERS = { root: 0o022, user: 0o002 } as const;
const ENTERED_BY_OTHERS = 0o001;

function unusable(path: string, detail: string, hint?: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('data_unusable', `${path} can't be used: ${detail}`, {
    hint: hint ?? 'Correct it, or choose another data directory by --data.',
    details: { path },
    cause,
  });
}

/** What the file system says, for people. */
function reason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'an unknown error';
  const words: Readonly<Record<string, string>> = {
    EEXIST: 'it is not a directory',
    EACCES: 'you may not write there',
    EPERM: 'you may not write there',
    EROFS: 'the file system is read-only',
    ENOSPC: 'the disk is full',
    EDQUOT: 'your quota of the disk is used up',
    ENOTDIR: 'a part of the path is not a directory',
    ELOOP: 'the path passes through a loop of symbolic links',
  };
  return words[code] ?? code;
}

/** Makes a directory of this user where it is missing, with exactly this mode. Errors: `data_unusable`. */
function ensure(path: string, mode: number, uid: number): void {
  try {
    mkdirSync(path, { recursive: true, mode });
    const found = lstatSync(path);
    if (!found.isDirectory()) throw unusable(path, 'it is not a directory');
    if (found.uid !== uid) throw unusable(path, `it belongs to user ${found.uid}`);
    if ((found.mode & 0o7777) !== mode) chmodSync(path, mode);
  } catch (error) {
    throw error instanceof BoxkiteError ? error : unusable(path, reason(error), undefined, error);
  }
}

/** Refuses a path on which another user could replace a directory. Errors: `data_unusable`. */
function checkParents(path: string, uid: number, service: number): void {
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    const found = lstatSync(parent);
    const safe = (found.mode & WRITABLE_BY_OTHERS[uid === 0 ? 'root' : 'user']) === 0 || (found.mode & STICKY) !== 0;
    if (!safe || (found.uid !== 0 && found.uid !== uid)) throw unusable(path, `others may change ${parent}`);
    if (service !== uid && (found.mode & ENTERED_BY_OTHERS) === 0) {
      throw unusable(
        path,
        `the service user can't pass through ${parent}`,
        `Allow it by chmod o+x ${parent}, or choose another data directory by --data.`,
      );
    }
    if (parent === dirname(parent)) return;
  }
}

/** A directory of Node's, which alone enters it. Errors: `data_unusable`. */
function ensureService(path: string, uid: number, service: number): void {
  if (uid === service) {
    ensure(path, 0o700, uid);
    return;
  }
  try {
    mkdirSync(path, { mode: 0o700 });
    chownSync(path, service, service);
    return;
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw unusable(path, reason(error), undefined, error);
  }
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== service || (found.mode & 0o077) !== 0)
    throw unusable(path, `it is no directory of mode 700 of user ${service}`);
}

/**
 * As `ensureService`, but replaces what a daemon has left that had other data, and so another user: nothing of it is of use.
 * Errors: `data_unusable`.
 */
function ensureRuntimeService(places: ServicePlaces, uid: number, service: number): void {
  const found = lstatSync(places.node, { throwIfNoEntry: false });
  if (uid === 0 && found !== undefined) {
    if (!found.isDirectory()) rmSync(places.node);
    else if (found.uid !== service || (found.mode & 0o077) !== 0) removeAs(found, places.node);
  }
  ensureService(places.node, uid, service);
}

/** Emptied as its owner: whoever is left of that user could lead root's hand elsewhere by a link. */
function removeAs({ uid, gid }: { readonly uid: number; readonly gid: number }, path: string): void {
  spawnSync('/bin/rm', ['-rf', '--', path], { uid, gid, env: {}, cwd: '/', stdio: 'ignore' });
  try {
    rmdirSync(path);
  } catch (error) {
    // Root's own is removed whole.
    if (!isErrno(error, 'ENOENT')) throw unusable(path, reason(error), `Remove ${path}.`, error);
  }
}

/** What is in every data directory from its first start on. */
function isOurs({ nodeData, state, log }: ServicePlaces, names: readonly string[]): boolean {
  return [nodeData, state, log].some((path) => names.includes(basename(path)));
}

/** Its mode is about to change, so that it must be nobody's but ours: not `/tmp`, not a home directory. Errors: `data_unusable`. */
function refuseForeign(places: ServicePlaces): void {
  const found = lstatSync(places.data, { throwIfNoEntry: false });
  if (found?.isDirectory() !== true) return;
  const names = readdirSync(places.data).filter((name) => !NOBODYS_DATA.has(name));
  if ((found.mode & STICKY) === 0 && (names.length === 0 || isOurs(places, names))) return;
  const detail = names.length === 0 ? 'it is for everybody' : `it holds other files and no data of a ${places.kind}`;
  throw unusable(places.data, detail, 'Name a new or an empty directory by --data.');
}

/** Makes the data directory itself. Errors: `data_unusable`. */
export function ensureDataDirectory(places: ServicePlaces, uid: number): void {
  try {
    refuseForeign(places);
  } catch (error) {
    throw error instanceof BoxkiteError ? error : unusable(places.data, reason(error), undefined, error);
  }
  ensure(places.data, uid === 0 ? 0o711 : 0o700, uid);
}

/**
 * Makes what stays, and returns the user id of Node. As root that is one of the runner's choice, which owns Node's data for
 * ever. Errors: `data_unusable`, `runner_failed`.
 */
export async function ensureData(places: ServicePlaces, uid: number, runner: string): Promise<number> {
  ensureDataDirectory(places, uid);
  const service = uid === 0 ? await serviceOf(places.nodeData, runner) : uid;
  checkParents(places.data, uid, service);
  ensure(places.state, 0o700, uid);
  // What a user starts runs from where it is.
  if (uid === 0) ensure(places.library, 0o755, uid);
  ensureService(places.nodeData, uid, service);
  return service;
}

/** The owner of Node's data. Of launchers that start at once the first one chooses. */
async function serviceOf(path: string, runner: string): Promise<number> {
  if (!existsSync(path)) {
    const chosen = chooseServiceId(runner);
    try {
      mkdirSync(path, { mode: 0o700 });
      chownSync(path, chosen, chosen);
      return chosen;
    } catch (error) {
      if (!isErrno(error, 'EEXIST')) throw unusable(path, reason(error), undefined, error);
    }
  }
  const end = Date.now() + OWNER_DEADLINE_MS;
  while (lstatSync(path).uid === 0 && Date.now() < end) await sleep(POLL_MS);
  // Whoever made it ended before it had its owner.
  if (lstatSync(path).uid === 0) ensureOwner(path, chooseServiceId(runner));
  return lstatSync(path).uid;
}

/** Nobody but root has been in it. */
function ensureOwner(path: string, service: number): void {
  try {
    rmdirSync(path);
    mkdirSync(path, { mode: 0o700 });
    chownSync(path, service, service);
  } catch (error) {
    throw unusable(path, 'it belongs to root', undefined, error);
  }
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Makes what belongs to the present run, and returns the directory of this process's run. Errors: `runner_failed`, `data_unusable`. */
export function ensureRuntime(places: ServicePlaces, uid: number, service: number): string {
  for (const path of [dirname(places.runtime), places.runtime]) {
    ensureOwn(path, uid);
    if (service !== uid) chmodSync(path, 0o711);
  }
  ensureOwn(places.runner, uid);
  ensureRuntimeService(places, uid, service);
  removeDeadRuns(places.runtime);
  const run = runDirectory(places.runtime, process.pid);
  rmSync(run, { recursive: true, force: true });
  ensure(run, service === uid ? 0o700 : 0o711, uid);
  return run;
}

/** Removes what runs have left that have ended. */
export function removeDeadRuns(runtime: string): void {
  for (const [pid, directory] of runs(runtime)) {
    if (pid !== process.pid && !isUsed(pid, directory)) rmSync(directory, { recursive: true, force: true });
  }
}

function isUsed(pid: number, directory: string): boolean {
  if (startTicks(pid) === null) return false;
  try {
    return isAlive(readRecord(`${directory}/${RECORD_NAME}`));
  } catch {
    // The process lives and may be about to write its record.
    return true;
  }
}
