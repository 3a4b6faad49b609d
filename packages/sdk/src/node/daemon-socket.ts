/** Finds the daemon of this machine. A socket or key that somebody else could have put there is not used. */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Environment } from '../platform.ts';

const KEY = /^bxk_live_[\w-]{43}$/;
const MAX_KEY_BYTES = 256;

/** Who asks. */
export interface Identity {
  /** Effective user id. */
  readonly uid: number;
  /** Directories that the daemon of this user may lie below; the first that is there and is its own counts. */
  readonly bases: readonly string[];
}

function identity(environment: Environment): Identity | null {
  const uid = process.geteuid?.();
  if (uid === undefined) return null;
  if (uid === 0) return { uid, bases: ['/run/boxkite'] };
  const runtime = environment.runtimeDirectory ?? `/run/user/${uid}`;
  return { uid, bases: [join(runtime, 'boxkite'), join(tmpdir(), `boxkite-${uid}`)] };
}

/** Path of the socket of this user's daemon; `null` where there is none. */
export function daemonSocket(environment: Environment): string | null {
  const who = identity(environment);
  return who === null ? null : socketBelow(who);
}

/** Path of the socket of the daemon below the first base that is the user's own. */
export function socketBelow({ uid, bases }: Identity): string | null {
  const base = bases.find((path) => path.startsWith('/') && isOwn(dirname(path), uid, true) && isOwn(path, uid, false));
  if (base === undefined || !isOwn(join(base, 'daemon'), uid, false)) return null;
  const socket = join(base, 'daemon', 'node', 'boxkite.sock');
  return lstatSync(socket, { throwIfNoEntry: false })?.isSocket() === true ? socket : null;
}

/** Whether a directory is the user's and nobody else can write it; a parent may be root's, or sticky as /tmp is. */
function isOwn(path: string, uid: number, parent: boolean): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() !== true || (found.uid !== uid && !(parent && found.uid === 0))) return false;
  return (found.mode & 0o022) === 0 || (parent && (found.mode & 0o1000) !== 0);
}

/** The key beside a socket: no link is followed, and it belongs to whom the directory does. */
export function keyBeside(socketPath: string): string | undefined {
  const directory = dirname(socketPath);
  let file: number;
  try {
    file = openSync(join(directory, 'key'), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    // None, or one that is not for this user: the server says that a key is missing.
    return undefined;
  }
  try {
    const found = fstatSync(file);
    if (!found.isFile() || found.size > MAX_KEY_BYTES || found.uid !== lstatSync(directory).uid) return undefined;
    const key = readFileSync(file, 'utf8').trim();
    return KEY.test(key) ? key : undefined;
  } finally {
    closeSync(file);
  }
}
