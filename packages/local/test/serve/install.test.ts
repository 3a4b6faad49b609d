import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { INSTALLED_NODE, install, removeUnused } from '../../src/serve/install.ts';

let base = '';
let library = '';
let bundle = '';
let node = '';

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-install-'));
  [library, bundle, node] = [join(base, 'lib'), join(base, 'bundle'), join(base, 'node')];
  mkdirSync(library);
  mkdirSync(join(bundle, 'lib'), { recursive: true });
  mkdirSync(join(bundle, 'bin'));
  writeFileSync(join(bundle, 'daemon.mjs'), 'one');
  writeFileSync(join(bundle, 'lib', 'chunk.mjs'), 'two');
  writeFileSync(join(bundle, 'bin', 'boxkite-runner'), 'three');
  copyFileSync('/bin/sleep', node);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const mode = (path: string): number => statSync(path).mode & 0o7777;

test('a version has the contents, modes that others can read, and a Node that they can only run', async () => {
  chmodSync(join(bundle, 'daemon.mjs'), 0o600);
  const version = await install(library, bundle, node);
  expect(basename(version)).toMatch(/^[0-9a-f]{64}$/);
  expect(readFileSync(join(version, 'lib', 'chunk.mjs'), 'utf8')).toBe('two');
  expect(['.', 'lib', 'bin'].map((name) => mode(join(version, name)))).toEqual([0o755, 0o755, 0o755]);
  expect(mode(join(version, 'daemon.mjs'))).toBe(0o644);
  expect(mode(join(version, 'bin', 'boxkite-runner'))).toBe(0o755);
  expect(mode(join(version, INSTALLED_NODE))).toBe(0o711);
  expect(readdirSync(library)).toEqual([basename(version)]);
});

if (process.geteuid?.() === 0) {
  test('what root installs from the files of a user is root’s', async () => {
    for (const path of [node, join(bundle, 'daemon.mjs'), join(bundle, 'lib')]) chownSync(path, 12_345, 12_345);
    const version = await install(library, bundle, node);
    const paths = readdirSync(version, { recursive: true, encoding: 'utf8' }).map((name) => join(version, name));
    expect(paths.map((path) => [statSync(path).uid, statSync(path).gid])).toEqual(paths.map(() => [0, 0]));
  });
}

test('launchers that install at once get the same version, whole', async () => {
  const versions = await Promise.all(Array.from({ length: 8 }, () => install(library, bundle, node)));
  expect(new Set(versions).size).toBe(1);
  expect(readdirSync(library)).toEqual([basename(versions[0] ?? '')]);
});

test('the same contents are installed once, others beside them', async () => {
  const version = await install(library, bundle, node);
  const { ino } = statSync(version);
  expect(await install(library, bundle, node)).toBe(version);
  expect(statSync(version).ino).toBe(ino);
  writeFileSync(join(bundle, 'daemon.mjs'), 'changed');
  expect(await install(library, bundle, node)).not.toBe(version);
  expect(readdirSync(library)).toHaveLength(2);
});

test.each<readonly [string, (version: string) => void]>([
  ['other contents', (version) => writeFileSync(join(version, 'daemon.mjs'), 'evil')],
  ['a file more', (version) => writeFileSync(join(version, 'lib', 'more.mjs'), '')],
  ['a file less', (version) => rmSync(join(version, 'lib', 'chunk.mjs'))],
  ['another mode', (version) => chmodSync(join(version, 'daemon.mjs'), 0o664)],
  ['a directory that others may write', (version) => chmodSync(join(version, 'lib'), 0o777)],
])('a version with %s is made anew', async (_what, change) => {
  const version = await install(library, bundle, node);
  change(version);
  expect(await install(library, bundle, node)).toBe(version);
  expect(readFileSync(join(version, 'daemon.mjs'), 'utf8')).toBe('one');
  expect(readdirSync(join(version, 'lib'))).toEqual(['chunk.mjs']);
  expect(mode(join(version, 'lib'))).toBe(0o755);
});

test('versions that nobody runs are removed, and what an interrupted install left', async () => {
  const old = await install(library, bundle, node);
  const child: ChildProcess = spawn(join(old, INSTALLED_NODE), ['60'], { stdio: 'ignore' });
  await once(child, 'spawn');
  writeFileSync(join(bundle, 'daemon.mjs'), 'newer');
  const unused = await install(library, bundle, node);
  writeFileSync(join(bundle, 'daemon.mjs'), 'newest');
  const present = await install(library, bundle, node);
  const [left, starting] = [join(library, '.new-left'), join(library, '.new-starting')];
  mkdirSync(left);
  mkdirSync(starting);
  removeUnused(library, present);
  expect(existsSync(unused)).toBe(true);
  for (const path of [left, old, unused]) utimesSync(path, 1, 1);
  removeUnused(library, present);
  expect([old, unused, present, left, starting].map((path) => existsSync(path))).toEqual([
    true,
    false,
    true,
    false,
    true,
  ]);
  child.kill('SIGKILL');
  await once(child, 'exit');
  removeUnused(library, present);
  expect(existsSync(old)).toBe(false);
});
