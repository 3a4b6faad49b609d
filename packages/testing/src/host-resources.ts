/** Counts what a runner holds on the host: processes, namespaces, mounts, cgroup directories, descriptors and files. */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { passwdEntry } from './passwd.ts';

/** Names of everything found, so that a difference says what was left. */
export interface Resources {
  /** `pid comm` of each descendant of the runner, and of each process that runs a copy of its programs. */
  readonly processes: readonly string[];
  /** `kind:[inode]` of each namespace that those processes are in or that the runner holds open, apart from the host's. */
  readonly namespaces: readonly string[];
  /** Mount entries of the runner's namespace and of those processes' ones. */
  readonly mounts: readonly string[];
  /** Directories below the runner's cgroups, of every hierarchy. */
  readonly cgroups: readonly string[];
  /** What each descriptor of the runner refers to. */
  readonly descriptors: readonly string[];
  /** Paths below the runner's directory and the directories of id locks. */
  readonly files: readonly string[];
}

/** Runs `read`, with `fallback` for what vanished meanwhile: files, and all that `/proc` says of a process. */
export function unlessGone<T>(read: () => T, fallback: T): T {
  try {
    return read();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ESRCH') return fallback;
    throw error;
  }
}

/** Runs `read`, with `fallback` for what vanished meanwhile or is not ours to see. */
function attempt<T>(read: () => T, fallback: T): T {
  try {
    return read();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (
      code === 'ENOENT' ||
      code === 'ESRCH' ||
      code === 'EACCES' ||
      code === 'EINVAL' ||
      code === 'EPERM' ||
      code === 'ENOTDIR'
    )
      return fallback;
    throw error;
  }
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  readonly name: string;
}

/** Every process of the machine that can be seen. */
export function processes(): readonly Process[] {
  const found: Process[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const text = attempt(() => readFileSync(`/proc/${name}/stat`, 'utf8'), '');
    const match = /^(\d+) \((.*)\) (\S) (\d+)/s.exec(text);
    if (match !== null)
      found.push({ pid: Number(match[1]), name: match[2] ?? '', state: match[3] ?? '', parent: Number(match[4]) });
  }
  return found;
}

/** Processes below `root`, and those whose program lies below `programs`; zombies that wait for a parent outside count too. */
export function processesOf(root: number | undefined, programs: string): readonly Process[] {
  const all = processes();
  const members = new Set<number>();
  for (const entry of all) {
    if (attempt(() => readlinkSync(`/proc/${entry.pid}/exe`), '').startsWith(`${programs}/`)) members.add(entry.pid);
  }
  if (root !== undefined) members.add(root);
  let grown = true;
  while (grown) {
    grown = false;
    for (const entry of all) {
      if (members.has(entry.parent) && !members.has(entry.pid)) {
        members.add(entry.pid);
        grown = true;
      }
    }
  }
  return all.filter((entry) => members.has(entry.pid) && entry.pid !== root);
}

function namespaceLinks(pid: number): readonly string[] {
  const base = `/proc/${pid}/ns`;
  return attempt(() => readdirSync(base), [])
    .map((name) => attempt(() => readlinkSync(join(base, name)), ''))
    .filter((link) => link !== '');
}

function descriptorsOf(pid: number): readonly string[] {
  const base = `/proc/${pid}/fd`;
  return (
    attempt(() => readdirSync(base), [])
      .map((name) => attempt(() => readlinkSync(join(base, name)), ''))
      .filter((link) => link !== '')
      // Which socket it is says nothing; that there is one does.
      .map((link) => link.replace(/^(socket|pipe):\[\d+\]$/, '$1').replace(/^\/proc\/\d+/, '/proc/N'))
  );
}

function mountsOf(pid: number): readonly string[] {
  return attempt(() => readFileSync(`/proc/${pid}/mountinfo`, 'utf8'), '')
    .split('\n')
    .filter((line) => line !== '');
}

function walk(directory: string, found: string[]): void {
  for (const entry of attempt(() => readdirSync(directory, { withFileTypes: true }), [])) {
    const path = join(directory, entry.name);
    found.push(path);
    if (entry.isDirectory()) walk(path, found);
  }
}

/** Control groups that a runner has made, by the file in which it records them for the sweep of a later one. */
export function groupsOf(directory: string): readonly string[] {
  return attempt(() => readFileSync(join(directory, 'groups'), 'utf8'), '')
    .split('\n')
    .filter((line) => line !== '');
}

/** Those of `groups` that exist, with the groups in them. */
function existingGroups(groups: readonly string[]): readonly string[] {
  const found: string[] = [];
  const look = (directory: string): void => {
    const entries = attempt(() => readdirSync(directory, { withFileTypes: true }), undefined);
    if (entries === undefined) return;
    found.push(directory);
    for (const entry of entries) if (entry.isDirectory()) look(join(directory, entry.name));
  };
  for (const group of groups) look(group);
  return found.toSorted();
}

/** Where id locks of this user lie. */
export function idLockDirectories(): readonly string[] {
  if (process.getuid?.() === 0) return ['/run/boxkite/ids'];
  // By the user's entry, as the runner has it; `HOME` may say something else.
  const home = passwdEntry()?.home;
  return home?.startsWith('/') === true ? [join(home, '.local/state/boxkite/ids')] : [];
}

/** Id locks that are held by a process below `root`, by the device and inode of the descriptors it holds. */
function heldLocks(descriptors: readonly string[]): readonly string[] {
  const directories = idLockDirectories();
  return descriptors.filter((link) => directories.some((directory) => link.startsWith(`${directory}/`)));
}

/** Everything of the runner with this process id, whose programs lie below `base`, and its own directory too. */
export function resourcesOf(pid: number, base: string, directory: string = join(base, 'runner')): Resources {
  const members = processesOf(pid, base);
  const host = new Set(namespaceLinks(process.pid));
  const descriptors = descriptorsOf(pid);
  const namespaces = new Set<string>();
  const mounts = new Set<string>();
  for (const entry of [pid, ...members.map((member) => member.pid)]) {
    for (const link of namespaceLinks(entry)) if (!host.has(link)) namespaces.add(link);
    for (const line of mountsOf(entry)) mounts.add(line);
  }
  for (const link of descriptors) if (/^[a-z_]+:\[\d+\]$/.test(link)) namespaces.add(link);
  const files: string[] = [];
  walk(base, files);
  return {
    processes: members.map((member) => `${member.pid} ${member.name} ${member.state}`).toSorted(),
    namespaces: [...namespaces].toSorted(),
    mounts: [...mounts].toSorted(),
    cgroups: existingGroups(groupsOf(directory)),
    descriptors: descriptors.toSorted(),
    files: [...files, ...heldLocks(descriptors)].toSorted(),
  };
}

/** What is left of a runner that has ended: nothing, if all is well. `groups` is what it had recorded. */
export function leftovers(base: string, groups: readonly string[]): readonly string[] {
  const files: string[] = [];
  walk(base, files);
  return [
    ...processesOf(undefined, base).map((entry) => `process ${entry.pid} ${entry.name} ${entry.state}`),
    ...existingGroups(groups).map((path) => `cgroup ${path}`),
    ...mountsOf(process.pid)
      .filter((line) => line.includes(base))
      .map((line) => `mount ${line}`),
    ...files
      .filter((path) => path !== join(base, 'test-runner') && path !== join(base, 'test-agent'))
      .map((path) => `file ${path}`),
  ];
}

/** What `after` has more of than `before`, counted by kind of thing: an empty list means that nothing is left. */
export function growth(before: Resources, after: Resources): readonly string[] {
  const found: string[] = [];
  for (const kind of ['processes', 'namespaces', 'mounts', 'cgroups', 'descriptors', 'files'] as const) {
    const count = after[kind].length - before[kind].length;
    if (count <= 0) continue;
    const rest = [...before[kind]];
    const added = after[kind].filter((entry) => {
      const index = rest.indexOf(entry);
      if (index >= 0) rest.splice(index, 1);
      return index < 0;
    });
    found.push(`${kind}: ${count} more (${added.slice(0, 8).join('; ')})`);
  }
  return found;
}

/** Inode of a namespace of this process. */
export function hostNamespace(name: string): number {
  return statSync(`/proc/self/ns/${name}`).ino;
}
