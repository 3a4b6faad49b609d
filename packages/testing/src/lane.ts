/** Which of the three ways in this run tests, on which machine. */
import { readFileSync } from 'node:fs';
import { passwdEntry } from './passwd.ts';

/** A way in: root, a user with an id range per sandbox, a user with one id for all. */
export type Lane = 'root' | 'user-range' | 'user-one-id';

/** What `BOXKITE_LANE` may say: a way in on this machine, or on one of Debian's with control groups of version 2. */
const LANES: Readonly<Record<string, Lane>> = {
  root: 'root',
  'user-range': 'user-range',
  'user-one-id': 'user-one-id',
  'v2-root': 'root',
  'v2-user': 'user-one-id',
};

/** Whether `/etc/subuid` gives this user a range. */
function hasRange(): boolean {
  const names = [passwdEntry()?.name, process.getuid?.()].filter((name) => name !== undefined);
  let text: string;
  try {
    text = readFileSync('/etc/subuid', 'utf8');
  } catch {
    // A machine without the file gives nobody a range.
    return false;
  }
  return text.split('\n').some((line) => names.some((name) => line.startsWith(`${name}:`)));
}

function chooseLane(): Lane {
  const wanted = process.env['BOXKITE_LANE'];
  if (wanted !== undefined) {
    const found = LANES[wanted];
    if (found === undefined) throw new TypeError(`BOXKITE_LANE must be one of ${Object.keys(LANES).join(', ')}`);
    return found;
  }
  if (process.getuid?.() === 0) return 'root';
  return hasRange() ? 'user-range' : 'user-one-id';
}

/** The lane of this run: `BOXKITE_LANE`, or what this user can do. */
export const lane: Lane = chooseLane();

/** Whether the lane is one of those that run in a virtual machine of ours, `make test-v2`. */
export const ownMachine: boolean = process.env['BOXKITE_LANE']?.startsWith('v2-') === true;

/** Status of `probe` that belongs to the lane. */
export const PROBE_MODE: Readonly<Record<Lane, string>> = {
  root: 'root',
  'user-range': 'id_range',
  'user-one-id': 'one_id',
};
