/** Debian's own kernel, downloaded and unpacked into a cache outside the checkout. It is never installed on this machine. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** What `apt` calls the newest kernel for virtual machines. */
const META_PACKAGE = 'linux-image-cloud-amd64';

/** An unpacked kernel. */
export interface Kernel {
  /** As `uname -r` names it. */
  readonly release: string;
  /** The compressed kernel. */
  readonly image: string;
  /** The directory of its modules, `lib/modules/RELEASE`. */
  readonly modules: string;
}

function apt(command: string, args: readonly string[], cwd?: string): string {
  return execFileSync(command, [...args], { encoding: 'utf8', cwd, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The package that the meta package stands for, and its version; undefined where apt has no list of packages. */
function newest(): { readonly name: string; readonly version: string } | undefined {
  const depends = apt('apt-cache', ['depends', '--important', META_PACKAGE]);
  const name = /^\s+Depends: (linux-image-[0-9][\w.+-]*)$/m.exec(depends)?.[1];
  if (name === undefined) return undefined;
  const version = /^\s+Candidate: ([\w.+:~-]+)$/m.exec(apt('apt-cache', ['policy', name]))?.[1];
  return version === undefined ? undefined : { name, version };
}

/** Downloads a package as apt checks it, and unpacks it into `to`, which appears whole or not at all. */
function unpack(name: string, version: string, to: string, cache: string): void {
  const work = mkdtempSync(join(cache, 'new-'));
  try {
    // As root apt would download as a user who can't enter the cache.
    const own = process.getuid?.() === 0 ? ['-o', 'APT::Sandbox::User=root'] : [];
    apt('apt-get', [...own, 'download', '-qq', `${name}=${version}`], work);
    const file = readdirSync(work).find((found) => found.endsWith('.deb'));
    if (file === undefined) throw new Error(`apt-get download ${name} brought no package`);
    const tree = join(work, 'tree');
    apt('dpkg-deb', ['-x', join(work, file), tree]);
    renameSync(tree, to);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function find(tree: string): Kernel {
  const release = readdirSync(join(tree, 'boot'))
    .find((name) => name.startsWith('vmlinuz-'))
    ?.slice('vmlinuz-'.length);
  const base = existsSync(join(tree, 'usr/lib/modules')) ? 'usr/lib/modules' : 'lib/modules';
  if (release === undefined) throw new Error('the kernel package holds no kernel');
  return { release, image: join(tree, 'boot', `vmlinuz-${release}`), modules: join(tree, base, release) };
}

function fromLists(cache: string): Kernel {
  const found = newest();
  if (found === undefined) throw new Error(`apt knows no ${META_PACKAGE}; run \`apt-get update\` as root first`);
  const directory = `${found.name}_${found.version.replace(':', '%')}`;
  const tree = join(cache, directory);
  if (!existsSync(tree)) unpack(found.name, found.version, tree, cache);
  for (const name of readdirSync(cache)) {
    if (name !== directory && name.startsWith('linux-image-')) rmSync(join(cache, name), { recursive: true });
  }
  return find(tree);
}

/** The newest kernel that apt knows, from `cache` where it is there already. Older ones are removed from it. */
export function prepareKernel(cache: string): Kernel {
  mkdirSync(cache, { recursive: true });
  try {
    return fromLists(cache);
  } catch (error) {
    if (process.getuid?.() !== 0) throw error;
    // There may be no lists yet, or they name what the archive has replaced.
    apt('apt-get', ['update', '-qq']);
    return fromLists(cache);
  }
}
