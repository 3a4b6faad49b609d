/**
 * Programs of a daemon that root starts, copied to where root alone can write and the service user can read: a checkout
 * may lie in somebody's home, and may change while the daemon runs. A version's directory is named by its contents.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  createReadStream,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { BoxkiteError } from '@boxkite/protocol';

/** One file of a version. */
interface Item {
  /** Path within the version. */
  readonly name: string;
  readonly from: string;
  readonly mode: number;
  readonly hash: string;
}

const YOUNG_MS = 60_000;
const SCRATCH_PREFIX = '.new-';
/** Where a version has its Node. */
export const INSTALLED_NODE = join('bin', 'node');
/** A process whose program its user can't read is not dumpable. */
const NODE_MODE = 0o711;

/** Copies a bundle and a Node to the library, unless they are there, and returns the version's directory. Errors: `data_unusable`. */
export async function install(library: string, bundle: string, node: string): Promise<string> {
  const items = await describe(bundle, node);
  const hash = createHash('sha256');
  for (const { name, mode, hash: content } of items) hash.update(`${mode.toString(8)} ${content} ${name}\n`);
  const version = join(library, hash.digest('hex'));
  if (await isWhole(version, items)) return version;
  const scratch = mkdtempSync(join(library, SCRATCH_PREFIX));
  try {
    copy(items, scratch);
    await takeName(scratch, version, items);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  if (await isWhole(version, items)) return version;
  throw new BoxkiteError('data_unusable', `the programs in ${version} are not what was written there`, {
    hint: 'Check the disk, or choose another data directory by --data.',
  });
}

/** Gives a copy the version's name, unless another launcher was faster. */
async function takeName(scratch: string, version: string, items: readonly Item[]): Promise<void> {
  try {
    renameSync(scratch, version);
  } catch (error) {
    if (!existsSync(version)) throw error;
    if (await isWhole(version, items)) return;
    // What bears the name is not what the name says: it was changed, or half removed.
    const aside = mkdtempSync(join(dirname(version), SCRATCH_PREFIX));
    renameSync(version, join(aside, 'changed'));
    rmSync(aside, { recursive: true, force: true });
    renameSync(scratch, version);
  }
}

/** Removes every other version that no process of this machine runs, and what an interrupted install left. */
export function removeUnused(library: string, present: string): void {
  const running = programsThatRun();
  for (const name of readdirSync(library)) {
    const directory = join(library, name);
    const used = directory === present || running.some((program) => program.startsWith(`${directory}/`));
    if (!used && !isYoung(directory)) rmSync(directory, { recursive: true, force: true });
  }
}

/** Another launcher may be writing it, or about to run it. */
function isYoung(directory: string): boolean {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  return found !== undefined && Date.now() - found.mtimeMs < YOUNG_MS;
}

function programsThatRun(): readonly string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readlinkSync(`/proc/${pid}/exe`)] : [];
    } catch {
      // It has ended, or belongs to the kernel.
      return [];
    }
  });
}

async function describe(bundle: string, node: string): Promise<readonly Item[]> {
  const files = readdirSync(bundle, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const items = files.map((entry) => {
    const from = join(entry.parentPath, entry.name);
    const name = from.slice(bundle.length + 1);
    return { name, from, mode: name.startsWith('bin/') ? 0o755 : 0o644 };
  });
  const all = [...items, { name: INSTALLED_NODE, from: node, mode: NODE_MODE }];
  all.sort((one, other) => (one.name < other.name ? -1 : 1));
  return Promise.all(all.map(async (item) => ({ ...item, hash: await hashOf(item.from) })));
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash);
  return hash.digest('hex');
}

function copy(items: readonly Item[], to: string): void {
  for (const { name, from, mode } of items) {
    const path = join(to, name);
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(from, path);
    // A copy has the owner of its original, which may be a user's checkout. Nobody else reaches it before.
    chownSync(path, process.geteuid?.() ?? 0, process.getegid?.() ?? 0);
    chmodSync(path, mode);
    sync(path);
  }
  for (const entry of readdirSync(to, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) chmodSync(join(entry.parentPath, entry.name), 0o755);
  }
  chmodSync(to, 0o755);
}

/** A version that bears its name after a crash of the machine is whole. */
function sync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Whether a version has exactly these files, with nobody but root able to write them. */
async function isWhole(version: string, items: readonly Item[]): Promise<boolean> {
  try {
    const entries = readdirSync(version, { recursive: true, withFileTypes: true });
    const paths = [version, ...entries.map((entry) => join(entry.parentPath, entry.name))];
    const owned = paths.every((path) => {
      const found = lstatSync(path);
      return found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
    });
    const files = entries.filter((entry) => !entry.isDirectory());
    if (!owned || files.length !== items.length || files.some((entry) => !entry.isFile())) return false;
    for (const { name, mode, hash } of items) {
      const path = join(version, name);
      if ((lstatSync(path).mode & 0o7777) !== mode || (await hashOf(path)) !== hash) return false;
    }
    return true;
  } catch {
    // Something of it is missing.
    return false;
  }
}
