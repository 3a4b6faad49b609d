/** `boxkite cp` between real local files and a sandbox in memory. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { placeOf } from '../src/copy/place.ts';
import type { Outcome } from './support/fake-io.ts';
import { call, FakeIo, services } from './support/fake-io.ts';
import { FakeServer } from './support/fake-server.ts';
import type { MemoryFiles, Node } from './support/memory-files.ts';

let here = '';
let server = new FakeServer();
let files: MemoryFiles;

beforeEach(() => {
  here = mkdtempSync(join(tmpdir(), 'boxkite-cp-'));
  server = new FakeServer();
  ({ files } = server.add('aaaaaaaa-1111-4000-8000-000000000000', { label: 'box' }));
});
afterEach(() => {
  rmSync(here, { recursive: true, force: true });
});

const local = (name: string): string => join(here, name);

function cp(...words: string[]): Promise<Outcome> {
  return call(['cp', ...words], services(server));
}

function content(path: string): string | undefined {
  const node: Node | undefined = files.tree.get(path);
  return node?.type === 'file' ? node.data.toString() : undefined;
}

test.each([
  ['-', { kind: 'standard' }],
  ['a/b', { kind: 'local', path: 'a/b' }],
  ['./a:b', { kind: 'local', path: './a:b' }],
  ['box:', { kind: 'sandbox', sandbox: 'box', path: '/workspace' }],
  ['box:a/../b', { kind: 'sandbox', sandbox: 'box', path: '/workspace/b' }],
  ['box:/tmp/x', { kind: 'sandbox', sandbox: 'box', path: '/tmp/x' }],
  ['box:d/', { kind: 'sandbox', sandbox: 'box', path: '/workspace/d/' }],
  ['box:d/.', { kind: 'sandbox', sandbox: 'box', path: '/workspace/d/.' }],
])('%s is %j', (word, place) => {
  expect(placeOf(word)).toEqual(place);
});

test('a file goes in under a name of its own, into a directory under its own, and over what is there', async () => {
  writeFileSync(local('a.sh'), 'one', { mode: 0o755 });
  chmodSync(local('a.sh'), 0o755);
  expect(await cp(local('a.sh'), 'box:b.sh')).toEqual({ status: 0, out: '', err: '' });
  expect(files.tree.get('/workspace/b.sh')).toMatchObject({ mode: 0o755 });
  await cp(local('a.sh'), 'box:');
  expect(content('/workspace/a.sh')).toBe('one');
  files.directory('/workspace/sub');
  files.link('/workspace/link', 'sub');
  await cp(local('a.sh'), 'box:link');
  expect(content('/workspace/sub/a.sh')).toBe('one');
  writeFileSync(local('a.sh'), 'two');
  await cp(local('a.sh'), 'box:b.sh');
  expect(content('/workspace/b.sh')).toBe('two');
});

test('standard input goes into a file, a file to standard output, byte for byte', async () => {
  const bytes = Buffer.from([0, 255, 10, 13]);
  const input = new FakeIo();
  input.input.end(bytes);
  expect(await call(['cp', '-', 'box:bin'], services(server), input)).toMatchObject({ status: 0 });
  const output = new FakeIo();
  await call(['cp', 'box:bin', '-'], services(server), output);
  expect(output.outBytes).toEqual(bytes);
});

test('a copy to standard output ends when its reader has gone while the next part was on its way', async () => {
  files.file('/workspace/out', 'onetwo');
  const io = new FakeIo();
  files.read = async function* () {
    yield Buffer.from('one');
    const gone = new Promise((resolve) => io.output.once('close', resolve));
    io.output.destroy(Object.assign(new Error('EPIPE'), { code: 'EPIPE' }));
    await gone;
    yield Buffer.from('two');
  };
  expect(await call(['cp', 'box:out', '-'], services(server), io)).toEqual({ status: 141, out: 'one', err: '' });
});

test('a file comes out under a name of its own, into a directory under its own, and over what is there', async () => {
  files.file('/workspace/out.txt', 'one', 0o4750);
  expect(await cp('box:out.txt', local('x'))).toEqual({ status: 0, out: '', err: '' });
  expect(readFileSync(local('x'), 'utf8')).toBe('one');
  expect(lstatSync(local('x')).mode & 0o7777).toBe(0o750 & ~process.umask());
  await cp('box:out.txt', here);
  files.file('/workspace/out.txt', 'two');
  const { out } = await cp('--json', 'box:out.txt', here);
  expect(JSON.parse(out)).toEqual({ target: local('out.txt'), bytes: 3, files: 1, omitted: [] });
  expect(readFileSync(local('out.txt'), 'utf8')).toBe('two');
  expect(readdirSync(here).sort()).toEqual(['out.txt', 'x']);
});

test.each([
  [['a', 'b'], 'neither side is in a sandbox'],
  [['box:a', 'box:b'], 'both sides are in sandboxes'],
  [['-', '-'], 'neither side is in a sandbox'],
  [['-', 'box:'], '/workspace is a directory, and standard input has no name'],
  [['HERE/none', 'box:'], "none can't be read: it is not there"],
  [['HERE/file', 'box:none/x'], 'there is no directory /workspace/none in the sandbox'],
  [['HERE/file', 'box:none/'], 'there is no directory /workspace/none/ in the sandbox'],
  [['HERE/pipe', 'box:'], 'is neither a file nor a directory'],
  [['HERE/dir', 'box:file'], '/workspace/file in the sandbox is not a directory'],
  [['HERE/file', 'box:under'], '/workspace/under/file in the sandbox is a directory'],
  [['box:none', 'HERE'], 'there is no /workspace/none in the sandbox'],
  [['box:device', 'HERE'], '/workspace/device is neither a file nor a directory'],
  [['box:file/', 'HERE'], '/workspace/file/ is not a directory'],
  [['box:file', 'HERE/none/'], 'there is no directory'],
  [['box:file', 'HERE/none/x'], 'there is no directory HERE/none (invalid'],
  [['box:file', 'HERE/file/x'], "HERE/file/x can't be written: a part of it is not a directory"],
  [['box:file', 'HERE/pipe'], 'pipe is not a regular file'],
  [['box:file', 'HERE/link'], 'link is a symbolic link'],
  [['box:dir', '-'], '/workspace/dir is a directory'],
  [['box:dir', 'HERE/file'], 'file is not a directory, and /workspace/dir is'],
  [['box:loop', 'HERE'], 'leads through too many links'],
  [[':a', 'b'], ':a names no sandbox'],
  [['--json', 'box:file', '-'], '--json does not go with standard output'],
])('%j is refused: %s', async (words, text) => {
  writeFileSync(local('file'), 'mine');
  mkdirSync(local('dir'));
  symlinkSync('/nonexistent', local('link'));
  execFileSync('mkfifo', [local('pipe')]);
  files.file('/workspace/file', 'theirs');
  files.directory('/workspace/dir');
  files.directory('/workspace/under');
  files.directory('/workspace/under/file');
  files.tree.set('/workspace/device', { type: 'other', mode: 0o644 });
  files.link('/workspace/loop', 'loop');
  const before = [...files.tree.keys()];
  const { status, err } = await cp(...words.map((word) => word.replace('HERE', here)));
  expect(err).toContain(text.replace('HERE', here));
  expect(err).toMatch(/\nhint: .+\n$/);
  expect(status).toBe(2);
  expect([...files.tree.keys()]).toEqual(before);
  expect(readFileSync(local('file'), 'utf8')).toBe('mine');
  expect(readdirSync(here).sort()).toEqual(['dir', 'file', 'link', 'pipe']);
});

test('a copy that is cut leaves the file that was there, and nothing beside it', async () => {
  files.file('/workspace/out', 'new content');
  files.broken.add('/workspace/out');
  writeFileSync(local('out'), 'old');
  expect((await cp('box:out', here)).status).toBe(1);
  expect(readFileSync(local('out'), 'utf8')).toBe('old');
  expect(readdirSync(here)).toEqual(['out']);
});

test('a link that an earlier copy brought is not written through', async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'boxkite-cp-'));
  try {
    writeFileSync(join(elsewhere, 'precious'), 'mine');
    symlinkSync(join(elsewhere, 'precious'), local('out'));
    symlinkSync(elsewhere, local('tree'));
    files.file('/workspace/out', 'theirs');
    files.directory('/workspace/tree');
    files.packed = here;
    expect((await cp('box:out', here)).status).toBe(2);
    expect((await cp('box:tree', here)).status).toBe(2);
    expect(readFileSync(join(elsewhere, 'precious'), 'utf8')).toBe('mine');
    expect(readdirSync(elsewhere)).toEqual(['precious']);
  } finally {
    rmSync(elsewhere, { recursive: true, force: true });
  }
});

function tree(): string {
  const top = local('tree');
  mkdirSync(join(top, 'sub'), { recursive: true });
  writeFileSync(join(top, 'sub', 'deep'), 'deep');
  symlinkSync('sub/deep', join(top, 'inner'));
  symlinkSync('/etc/passwd', join(top, 'outer'));
  return top;
}

test('a directory comes out whole, without links that lead out of it', async () => {
  files.packed = tree();
  files.directory('/workspace/results');
  const outcome = await cp('box:results', local('fresh'));
  expect(outcome).toEqual({
    status: 0,
    out: '',
    err: 'boxkite: outer is left out: it is a link that leads out of the copy\n',
  });
  expect(readFileSync(local('fresh/sub/deep'), 'utf8')).toBe('deep');
  expect(readlinkSync(local('fresh/inner'))).toBe('sub/deep');
  expect(existsSync(local('fresh/outer'))).toBe(false);
  mkdirSync(local('there'));
  files.lacks = { omitted: 2, cut: 1 };
  expect((await cp('box:results', local('there'))).err.split('\n').slice(1, 3)).toEqual([
    `boxkite: 2 of ${local('there/results')} are left out: they can't be read, or are devices, sockets or pipes`,
    `boxkite: 1 of ${local('there/results')} became shorter while they were read: the rest of each is zeros`,
  ]);
  expect(readdirSync(local('there'))).toEqual(['results']);
  await cp('box:results/.', local('there'));
  expect(readdirSync(local('there')).sort()).toEqual(['inner', 'results', 'sub']);
});

test('a directory goes in under its own name, under a new one, or as what is in it', async () => {
  const top = tree();
  execFileSync('mkfifo', [join(top, 'pipe')]);
  const outcome = await cp(top, 'box:');
  expect(outcome.err).toBe('boxkite: pipe is left out: it is a device, socket or pipe\n');
  await cp(top, 'box:renamed');
  await cp(`${top}/.`, 'box:');
  expect(files.unpacked.map(({ path }) => path)).toEqual(['/workspace/tree', '/workspace/renamed', '/workspace']);
  expect(files.unpacked.every(({ bytes }) => bytes > 2048)).toBe(true);
});

test('progress of a long copy is on standard error of a terminal alone, and leaves no line', async () => {
  files.file('/workspace/out', Buffer.alloc(1 << 20));
  const read = files.read.bind(files);
  files.read = async function* (path: string) {
    yield Buffer.alloc(512 << 10);
    await new Promise((resolve) => setTimeout(resolve, 600));
    yield* read(path);
  };
  const io = new FakeIo({ terminals: [2] });
  await call(['cp', 'box:out', local('out')], services(server), io);
  expect(io.err).toMatch(/^\r1\.0 MiB of 1\.0 MiB {3}100 % {3}[\d.]+ [KM]iB\/s\u001b\[K.*\r\u001b\[K$/s);
  const quiet = new FakeIo();
  await call(['cp', 'box:out', local('out')], services(server), quiet);
  expect(quiet.err).toBe('');
});
