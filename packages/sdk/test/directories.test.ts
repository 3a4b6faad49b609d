/** Directories up and down: what a sandbox packs is anybody's, so nothing of it gets out of its place. */
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
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FilesPort } from '@boxkite/protocol';
import type { Header } from 'tar-stream';
import { extract, pack } from 'tar-stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Sandbox } from '../src/sandbox.ts';
import { FakeHandle, FakeProvider, FakeSandbox } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

type Entry = Partial<Header> & { readonly name: string; readonly data?: string | Uint8Array };

let top: string;
let target: string;
/** What the sandbox packs. */
let entries: readonly Entry[];
/** What was unpacked in the sandbox. */
let received: { readonly path: string; readonly names: Map<string, Header & { data: string }> };
let fake: FakeSandbox;
let files: { -readonly [Name in keyof FilesPort]: FilesPort[Name] };

async function* tarOf(list: readonly Entry[]): AsyncGenerator<Uint8Array> {
  const archive = pack();
  for (const { data, ...header } of list) {
    if (data === undefined) archive.entry(header);
    else archive.entry(header, data);
  }
  archive.finalize();
  for await (const part of archive) yield part as Uint8Array;
}

async function unpacked(path: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
  const names = new Map<string, Header & { data: string }>();
  const archive = extract();
  const reading = (async () => {
    for await (const entry of archive) {
      let data = '';
      for await (const part of entry) data += Buffer.from(part as Uint8Array).toString();
      names.set(entry.header.name, { ...entry.header, data });
    }
  })();
  for await (const part of tar) archive.write(Buffer.from(part));
  archive.end(null);
  await reading;
  received = { path, names };
}

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'boxkite-directories-'));
  target = join(top, 'target');
  entries = [];
  files = {
    ...new FakeSandbox(async () => new FakeHandle([])).files,
    pack: () => tarOf(entries),
    unpack: unpacked,
  };
  fake = new FakeSandbox(async () => new FakeHandle([]), files);
});
afterEach(() => {
  rmSync(top, { recursive: true, force: true });
});

async function withSandbox(use: (sandbox: Sandbox) => Promise<void>, way: 'port' | 'http' = 'port'): Promise<void> {
  if (way === 'port') return use(await Sandbox.create({ provider: new FakeProvider(fake) }));
  await using server = await V1Server.start(fake);
  await use(await Sandbox.create({ url: server.url }));
}

const download = (options = {}): Promise<void> =>
  withSandbox(async (sandbox) => void (await sandbox.files.downloadDirectory('dir', target, options)));

/** Everything below the test's directory, so that nothing half is overlooked. */
function left(): string[] {
  const below = (path: string): string[] =>
    readdirSync(join(top, path), { withFileTypes: true }).flatMap((entry) => {
      const name = join(path, entry.name);
      return entry.isDirectory() ? [name, ...below(name)] : [name];
    });
  return below('').sort();
}

describe.each(['port', 'http'] as const)('over %s', (way) => {
  test('a tree comes with its modes, times, links and empty directories', async () => {
    const mtime = new Date('2020-02-03T04:05:06Z');
    entries = [
      { name: './', type: 'directory', mode: 0o750, mtime },
      { name: './empty/', type: 'directory', mode: 0o500, mtime },
      { name: './run.sh', mode: 0o4755, mtime, data: 'echo' },
      { name: './deep/er/file', mode: 0o600, mtime, data: 'x'.repeat(300_000) },
      { name: './deep/link', type: 'symlink', linkname: '../run.sh', mtime },
      { name: './none', mode: 0o644, mtime, data: '' },
    ];
    await withSandbox(async (sandbox) => {
      const report = await sandbox.files.downloadDirectory('dir', target);
      expect(report).toEqual({
        files: 3,
        directories: 3,
        links: 1,
        bytes: 300_004,
        skipped: [],
        omitted: null,
        cut: null,
      });
    }, way);
    expect(left()).toEqual([
      'target',
      'target/deep',
      'target/deep/er',
      'target/deep/er/file',
      'target/deep/link',
      'target/empty',
      'target/none',
      'target/run.sh',
    ]);
    const mode = (name: string): number => statSync(join(target, name)).mode & 0o7777;
    expect(mode('')).toBe(0o750);
    expect(mode('empty')).toBe(0o500);
    expect(mode('run.sh')).toBe(0o755);
    expect(mode('deep/er/file')).toBe(0o600);
    expect(readlinkSync(join(target, 'deep/link'))).toBe('../run.sh');
    expect(readFileSync(join(target, 'deep/er/file'), 'utf8').length).toBe(300_000);
    for (const name of ['', 'empty', 'run.sh', 'deep/link']) expect(lstatSync(join(target, name)).mtime).toEqual(mtime);
  });

  test('a tree goes with what the filter leaves', async () => {
    mkdirSync(join(top, 'source/node_modules/x'), { recursive: true });
    mkdirSync(join(top, 'source/src'));
    writeFileSync(join(top, 'source/src/a.ts'), 'a');
    writeFileSync(join(top, 'source/big'), 'x'.repeat(2000));
    chmodSync(join(top, 'source/src/a.ts'), 0o755);
    symlinkSync('src/a.ts', join(top, 'source/link'));
    const asked: string[] = [];
    await withSandbox(async (sandbox) => {
      await sandbox.files.uploadDirectory(join(top, 'source'), 'to', {
        filter: ({ path, type, size }) => {
          asked.push(`${type} ${path}`);
          return path !== 'node_modules' && size < 1000;
        },
      });
    }, way);
    expect(received.path).toBe('to');
    expect([...received.names.keys()]).toEqual(['link', 'src/', 'src/a.ts']);
    expect(received.names.get('src/a.ts')).toMatchObject({ mode: 0o755, data: 'a' });
    expect(received.names.get('link')).toMatchObject({ type: 'symlink', linkname: 'src/a.ts' });
    expect(asked).not.toContain('directory node_modules/x');
  });
});

test.each([
  ['an absolute path', { name: '/etc/evil', data: 'x' }, {}],
  ['a path that leads out', { name: 'a/../../evil', data: 'x' }, {}],
  ['a device', { name: 'dev', type: 'character-device', devmajor: 1, devminor: 3 }, {}],
  ['a pipe', { name: 'pipe', type: 'fifo' }, {}],
  ['a hard link', { name: 'hard', type: 'link', linkname: 'ok' }, {}],
  ['a link that leads out', { name: 'link', type: 'symlink', linkname: '../outside' }, {}],
  ['a link that leads out of its depth', { name: 'a/b/link', type: 'symlink', linkname: '../../../x' }, {}],
  ['a link that turns back behind a name', { name: 'a/b/link', type: 'symlink', linkname: 'other/../x' }, {}],
  ['an absolute link', { name: 'link', type: 'symlink', linkname: '/etc/passwd' }, {}],
  ['a file in place of the top', { name: './', data: 'x' }, {}],
  ['two files of one name', { name: 'ok', data: 'again' }, {}],
  ['a file in place of a directory', { name: 'ok/below', data: 'x' }, {}],
  ['too many bytes', { name: 'big', data: 'x'.repeat(1001) }, { max_bytes: 1000 }],
  ['too many entries', { name: 'one-more', data: '' }, { max_entries: 1 }],
  ['a name that is too long', { name: 'n'.repeat(256), data: '' }, {}],
  ['a path that is too deep', { name: `${'d/'.repeat(300)}x`, data: '' }, {}],
] as const)('%s is refused, and nothing is left', async (_what, entry, options) => {
  entries = [{ name: 'ok', data: 'fine' }, entry];
  await expect(download(options)).rejects.toMatchObject({ name: 'BoxkiteError', code: 'archive_refused' });
  expect(left()).toEqual([]);
});

test('nothing is written through a link of the archive', async () => {
  const outside = join(top, 'outside');
  mkdirSync(outside);
  entries = [
    { name: 'd', type: 'symlink', linkname: 'e' },
    { name: 'e', type: 'symlink', linkname: 'd' },
    { name: 'd/file', data: 'x' },
  ];
  await expect(download()).rejects.toMatchObject({ code: 'archive_refused' });
  expect(left()).toEqual(['outside']);
});

test('links that lead out can be left out', async () => {
  entries = [
    { name: 'bin/python', type: 'symlink', linkname: '/usr/bin/python3' },
    { name: 'in', type: 'symlink', linkname: './bin' },
  ];
  await withSandbox(async (sandbox) => {
    const report = await sandbox.files.downloadDirectory('dir', target, { links: 'skip' });
    expect(report).toMatchObject({ links: 1, skipped: ['bin/python'] });
  });
  expect(left()).toEqual(['target', 'target/in']);
});

test('bytes that are no archive leave nothing', async () => {
  files.pack = async function* () {
    yield Buffer.from('x'.repeat(2000));
  };
  await expect(download()).rejects.toMatchObject({ code: 'archive_refused' });
  expect(left()).toEqual([]);
});

async function bytesOf(list: readonly Entry[]): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of tarOf(list)) parts.push(part);
  return Buffer.concat(parts);
}

describe('an archive that ends early is a connection that was lost', () => {
  const list: readonly Entry[] = [
    { name: 'd/', type: 'directory' },
    { name: 'd/zeros', data: new Uint8Array(3000) },
    { name: 'd/link', type: 'symlink', linkname: 'zeros' },
    { name: `${'long/'.repeat(40)}name`, data: '' },
    { name: 'last', data: new Uint8Array(2048) },
  ];

  test.each([1, 512, 700, 65_536])('wherever it is cut, in parts of %i bytes', async (size) => {
    const bytes = await bytesOf(list);
    files.pack = async function* () {
      for (let at = 0; at < cut; at += size) yield bytes.subarray(at, Math.min(at + size, cut));
    };
    const step = size === 1 ? 2048 : 512;
    let cut = 0;
    for (; cut < bytes.length; cut += step) {
      await expect(download(), `cut at ${cut}`).rejects.toMatchObject({
        name: 'BoxkiteError',
        code: 'connection_lost',
      });
      expect(left()).toEqual([]);
    }
    cut = bytes.length;
    await download();
    expect(left()).toContain('target/last');
  });

  test.each([
    ['that ends with its connection', { connection: 'close' }, {}],
    ['that has its trailer', { trailer: 'boxkite-archive-end' }, { 'boxkite-archive-end': '{"omitted":0,"cut":0}' }],
  ])('over an answer %s', async (_what, headers, trailers) => {
    const bytes = await bytesOf(list);
    for (const cut of [0, 512]) {
      await using server = await V1Server.start(fake);
      const sandbox = await Sandbox.create({ url: server.url });
      server.hook = (request, response) => {
        if (request.url?.includes('/archive') !== true) return false;
        response.useChunkedEncodingByDefault = Object.keys(trailers).length > 0;
        response.writeHead(200, { 'content-type': 'application/x-tar', ...headers });
        response.addTrailers(trailers);
        response.write(bytes.subarray(0, cut));
        response.end();
        return true;
      };
      await expect(sandbox.files.downloadDirectory('dir', target)).rejects.toMatchObject({ code: 'connection_lost' });
      expect(left()).toEqual([]);
    }
  });

  test('a target that is merged into stays as it was', async () => {
    mkdirSync(target);
    writeFileSync(join(target, 'last'), 'old');
    const bytes = await bytesOf(list);
    files.pack = async function* () {
      yield bytes.subarray(0, -1024);
    };
    await expect(download({ merge: true })).rejects.toMatchObject({ code: 'connection_lost' });
    expect(left()).toEqual(['target', 'target/last']);
    expect(readFileSync(join(target, 'last'), 'utf8')).toBe('old');
  });

  test('an empty directory has an end too', async () => {
    await download();
    expect(left()).toEqual(['target']);
  });
});

test('the failure of a stream is its own, and leaves nothing', async () => {
  files.pack = async function* () {
    for await (const part of tarOf([{ name: 'a', data: 'x'.repeat(500_000) }])) {
      yield part.subarray(0, 1000);
      break;
    }
    throw new TypeError('the connection');
  };
  await expect(download()).rejects.toThrow('the connection');
  expect(left()).toEqual([]);
});

test('a refusal does not wait for a stream that stands still', async () => {
  let stopped = false;
  files.pack = async function* (_path, signal) {
    const parts: Uint8Array[] = [];
    for await (const part of tarOf([
      { name: '/evil', data: 'x' },
      { name: 'b', data: 'x' },
    ]))
      parts.push(part);
    yield Buffer.concat(parts).subarray(0, 1024);
    await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()));
    stopped = true;
  };
  await expect(download({ timeout_ms: 20_000 })).rejects.toMatchObject({ code: 'archive_refused' });
  await expect.poll(() => stopped).toBe(true);
});

test('a target that holds something is refused, or merged by name', async () => {
  mkdirSync(join(target, 'both'), { recursive: true, mode: 0o711 });
  writeFileSync(join(target, 'both/mine'), 'mine');
  writeFileSync(join(target, 'both/shared'), 'old');
  entries = [
    { name: 'both/', type: 'directory', mode: 0o700 },
    { name: 'both/shared', data: 'new' },
    { name: 'new/file', data: 'x' },
  ];
  await expect(download()).rejects.toMatchObject({ code: 'directory_not_empty' });
  expect(readFileSync(join(target, 'both/shared'), 'utf8')).toBe('old');
  await download({ merge: true });
  expect(left().filter((name) => name.startsWith('.'))).toEqual([]);
  expect(readFileSync(join(target, 'both/shared'), 'utf8')).toBe('new');
  expect(readFileSync(join(target, 'both/mine'), 'utf8')).toBe('mine');
  expect(existsSync(join(target, 'new/file'))).toBe(true);
  expect(statSync(join(target, 'both')).mode & 0o777).toBe(0o711);
});

test('a merge that can not end well changes nothing', async () => {
  mkdirSync(join(target, 'a'), { recursive: true });
  symlinkSync(top, join(target, 'link'));
  for (const entry of [
    { name: 'a', data: 'x' },
    { name: 'link/file', data: 'x' },
  ]) {
    entries = [{ name: 'first', data: 'x' }, entry];
    const code = entry.name === 'a' ? 'is_directory' : 'not_a_directory';
    await expect(download({ merge: true })).rejects.toMatchObject({ code });
    expect(left()).toEqual(['target', 'target/a', 'target/link']);
  }
});

test('an empty target is taken, a file or a missing parent is not', async () => {
  mkdirSync(target);
  entries = [{ name: 'a', data: 'x' }];
  await download();
  expect(left()).toEqual(['target', 'target/a']);
  const file = join(top, 'file');
  writeFileSync(file, '');
  await withSandbox(async (sandbox) => {
    await expect(sandbox.files.downloadDirectory('dir', file)).rejects.toMatchObject({ code: 'not_a_directory' });
    await expect(sandbox.files.downloadDirectory('dir', join(top, 'none/x'))).rejects.toMatchObject({
      code: 'invalid_request',
    });
    await expect(sandbox.files.uploadDirectory(file, 'x')).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(sandbox.files.uploadDirectory(join(top, 'none'), 'x')).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'local' },
    });
  });
});

test('a copy is checked before a sandbox is made for it, and refused where it can not fit', async () => {
  await using server = await V1Server.start(fake);
  const { url } = server;
  await expect(Sandbox.create({ url, copy: join(top, 'none') })).rejects.toMatchObject({
    code: 'invalid_request',
    details: { field: 'copy' },
  });
  expect(server.created).toBe(0);
  mkdirSync(target);
  writeFileSync(join(target, 'a'), 'x');
  await Sandbox.create({ url, copy: target });
  expect(received.path).toBe('/workspace');
  expect(server.seen.join('\n')).not.toContain(top);
  for (let index = 0; index < 1001; index += 1) writeFileSync(join(target, `f${index}`), '');
  await expect(Sandbox.create({ url, copy: target })).rejects.toMatchObject({ code: 'no_space' });
  expect(server.destroyed).toBe(1);
});
