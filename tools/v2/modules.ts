/** Modules of the guest's kernel, in the order in which they can be loaded. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** A module as the kernel takes it. */
export interface Module {
  readonly name: string;
  readonly bytes: Buffer;
}

function moduleName(file: string): string {
  return basename(file)
    .replace(/\.ko(\.xz)?$/, '')
    .replaceAll('-', '_');
}

function load(file: string): Buffer {
  return file.endsWith('.xz')
    ? execFileSync('xz', ['--decompress', '--stdout', file], { maxBuffer: 1 << 28 })
    : readFileSync(file);
}

/** What a module says that it needs, in its own section `.modinfo`. */
export function needsOf(bytes: Buffer): readonly string[] {
  const line = /\0depends=([\w,-]*)\0/.exec(bytes.toString('latin1'))?.[1] ?? '';
  return line
    .split(',')
    .filter((name) => name !== '')
    .map((name) => name.replaceAll('-', '_'));
}

/** Those of `wanted` that are modules and not built in, after everything that they need. */
export function modulesInOrder(directory: string, wanted: readonly string[]): readonly Module[] {
  const files = new Map<string, string>();
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    if (/\.ko(\.xz)?$/.test(path)) files.set(moduleName(path), join(directory, path));
  }
  const builtIn = new Set(readFileSync(join(directory, 'modules.builtin'), 'utf8').split('\n').map(moduleName));
  const ordered = new Map<string, Module>();
  const add = (name: string): void => {
    if (ordered.has(name) || builtIn.has(name)) return;
    const file = files.get(name);
    if (file === undefined) throw new Error(`the kernel has no module ${name}`);
    const bytes = load(file);
    for (const need of needsOf(bytes)) add(need);
    ordered.set(name, { name, bytes });
  };
  for (const name of wanted) add(name);
  return [...ordered.values()];
}
