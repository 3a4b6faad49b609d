/** Which files of this Debian machine a set of its packages is made of: the guest's `/usr` is the host's, without the rest. */
import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

/** An installed package, as far as its files and needs go. */
export interface Installed {
  readonly name: string;
  readonly provides: readonly string[];
  /** Every alternative of every dependency. */
  readonly needs: readonly string[];
}

/** No program reads these in a test; they are half of what a package weighs. */
const LEFT_OUT = /^\/usr\/share\/(doc|man|info|locale|lintian|bug|i18n)\//;

function names(list: string): readonly string[] {
  return list
    .split(/[,|]/)
    .map((word) => word.trim().replace(/[ :(].*$/, ''))
    .filter((word) => word !== '');
}

/** Reads what `dpkg-query` prints: a line per package, its `FIELDS` between tabs. */
export function readInstalled(text: string): readonly Installed[] {
  return text.split('\n').flatMap((line) => {
    const [status = '', name = '', needs = '', early = '', provides = ''] = line.split('\t');
    if (!status.startsWith('ii')) return [];
    return [{ name, provides: names(provides), needs: [...names(needs), ...names(early)] }];
  });
}

const FIELDS = ['db:Status-Abbrev', 'Package', 'Depends', 'Pre-Depends', 'Provides'];
const FORMAT = `${FIELDS.map((field) => `\${${field}}`).join('\t')}\n`;

/** `wanted` and all that they need, of what is installed. A wanted package that is not is an error. */
export function closure(installed: readonly Installed[], wanted: readonly string[]): readonly string[] {
  const byName = new Map<string, Installed[]>();
  for (const found of installed) {
    for (const name of [found.name, ...found.provides]) byName.set(name, [...(byName.get(name) ?? []), found]);
  }
  const missing = wanted.filter((name) => !byName.has(name));
  if (missing.length > 0) throw new Error(`Debian packages that are not installed: ${missing.join(' ')}`);
  const taken = new Set<string>();
  const queue = [...wanted];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    for (const found of byName.get(name) ?? []) {
      if (taken.has(found.name)) continue;
      taken.add(found.name);
      queue.push(...found.needs);
    }
  }
  return [...taken].toSorted();
}

/** Where a path of a package really is: `/bin` and its like are links into `/usr`. */
function merged(path: string): string {
  const top = /^\/(bin|sbin|lib|lib32|lib64|libx32)(?=\/)/.exec(path)?.[0];
  return top !== undefined && lstatSync(top).isSymbolicLink() ? `/usr${path}` : path;
}

/** Links that `update-alternatives` made belong to no package. */
function alternatives(): readonly string[] {
  return ['/usr/bin', '/usr/sbin'].flatMap((directory) =>
    readdirSync(directory, { withFileTypes: true })
      .filter((entry) => entry.isSymbolicLink())
      .map((entry) => join(directory, entry.name))
      .filter((path) => readlinkSync(path).startsWith('/etc/alternatives/')),
  );
}

/** Absolute paths of everything that `wanted` and what they need consist of, directories included. */
export function filesOf(wanted: readonly string[]): readonly string[] {
  const query = (args: readonly string[]) =>
    execFileSync('dpkg-query', [...args], { encoding: 'utf8', maxBuffer: 1 << 28 });
  const packages = closure(readInstalled(query(['--show', '--showformat', FORMAT])), wanted);
  const listed = query(['--listfiles', ...packages])
    .split('\n')
    .filter((line) => line.startsWith('/') && line !== '/.')
    .map(merged);
  const paths = new Set([...listed, ...alternatives(), '/etc/alternatives']);
  for (const name of readdirSync('/etc/alternatives')) paths.add(`/etc/alternatives/${name}`);
  return [...paths]
    .filter((path) => !LEFT_OUT.test(path) && lstatSync(path, { throwIfNoEntry: false }) !== undefined)
    .toSorted();
}
