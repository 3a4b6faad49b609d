import { createHash, randomBytes } from 'node:crypto';
import { chmod, link, lstat, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FileAgentClient, FileAgentDisconnectedError, type FileEntry } from '../src/files/index.ts';
import { AgentProcess } from './files/agent-process.ts';

let agent: AgentProcess;
let client: FileAgentClient;

beforeAll(async () => {
  agent = await AgentProcess.start();
  client = await agent.client();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
});

const host = (...names: string[]) => agent.host('workspace', ...names);

async function names(entries: AsyncIterable<FileEntry>): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of entries) found.push(entry.path);
  return found;
}

describe('the root', () => {
  test('contains the five directories and nothing else', async () => {
    expect(await names(client.walk('/', { maxDepth: 3, only: 'directories' }))).toEqual(
      expect.arrayContaining(['mnt', 'mnt/skills', 'mnt/user-data', 'mnt/user-data/outputs', 'tmp', 'workspace']),
    );
    for (const path of ['/etc/passwd', '/proc/self/environ', '/dev/null', '/usr/bin/true']) {
      await expect(client.stat(path)).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  test('uploads and skills are read-only, outputs are not', async () => {
    for (const path of ['/mnt/user-data/uploads/a', '/mnt/skills/a', '/a']) {
      await expect(client.write(path, Buffer.from('x'))).rejects.toMatchObject({ code: 'read_only', errno: 30 });
    }
    await client.write('/mnt/user-data/outputs/a', Buffer.from('x'));
    expect(await readFile(agent.host('outputs', 'a'), 'utf8')).toBe('x');
  });
});

describe('reading and writing', () => {
  test.each([0, 1, 1024, 128 << 10, (128 << 10) + 1, (4 << 20) + 3, 24 << 20])('%i bytes and back', async (size) => {
    const data = randomBytes(size);
    const written = await client.write('/workspace/round', data);
    expect(written).toMatchObject({ type: 'file', size, mode: 0o644 });
    expect((await readFile(host('round'))).equals(data)).toBe(true);
    expect((await client.readAll('/workspace/round')).equals(data)).toBe(true);
    expect(await client.hash('/workspace/round')).toEqual({
      size,
      sha256: createHash('sha256').update(data).digest('hex'),
    });
  });

  test('parts, also beyond the end', async () => {
    await client.write('/workspace/part', Buffer.from('0123456789'));
    expect((await client.readAll('/workspace/part', { offset: 3, length: 4 })).toString()).toBe('3456');
    expect((await client.readAll('/workspace/part', { offset: 8 })).toString()).toBe('89');
    expect((await client.readAll('/workspace/part', { offset: 80 })).toString()).toBe('');
  });

  test('a stream of pieces, and its attributes', async () => {
    const pieces = [randomBytes(300_000), Buffer.alloc(0), randomBytes(5_000_000)];
    async function* source() {
      yield* pieces;
    }
    await client.write('/workspace/streamed', source(), { mode: 0o600 });
    const reading = client.read('/workspace/streamed');
    expect(await reading.meta()).toMatchObject({ size: 5_300_000, mode: 0o600 });
    expect((await reading.all()).equals(Buffer.concat(pieces))).toBe(true);
  });

  test('an existing file keeps its mode, a given one wins, special bits are refused', async () => {
    await client.write('/workspace/mode', Buffer.from('a'), { mode: 0o755 });
    expect(await client.write('/workspace/mode', Buffer.from('b'))).toMatchObject({ mode: 0o755 });
    expect(await client.write('/workspace/mode', Buffer.from('b'), { mode: 0o640 })).toMatchObject({ mode: 0o640 });
    const bad = client.write('/workspace/mode', Buffer.from('b'), { mode: 0o4755 });
    await expect(bad).rejects.toMatchObject({ code: 'invalid' });
    await client.chmod('/workspace/mode', 0o444);
    await expect(client.write('/workspace/mode', Buffer.from('c'))).rejects.toMatchObject({ code: 'permission' });
  });

  test('exclusive, append, createParents, replaceLink', async () => {
    await client.write('/workspace/p/q/r', Buffer.from('1'), { createParents: true, exclusive: true });
    const again = client.write('/workspace/p/q/r', Buffer.from('2'), { exclusive: true });
    await expect(again).rejects.toMatchObject({ code: 'exists' });
    await client.write('/workspace/p/q/r', Buffer.from('2'), { append: true });
    await client.write('/workspace/p/q/new', randomBytes(600_000), { append: true });
    expect(await readFile(host('p/q/r'), 'utf8')).toBe('12');
    await symlink('r', host('p/q/link'));
    await client.write('/workspace/p/q/link', Buffer.from('through'));
    expect(await readFile(host('p/q/r'), 'utf8')).toBe('through');
    expect(await readlink(host('p/q/link'))).toBe('r');
    await client.write('/workspace/p/q/link', Buffer.from('instead'), { replaceLink: true });
    expect((await lstat(host('p/q/link'))).isFile()).toBe(true);
    expect(await readFile(host('p/q/r'), 'utf8')).toBe('through');
  });

  test('a hard link is cut, not written through', async () => {
    await writeFile(host('one'), 'old');
    await link(host('one'), host('two'));
    await client.write('/workspace/one', Buffer.from('new'));
    expect(await readFile(host('two'), 'utf8')).toBe('old');
  });

  test('what is no file', async () => {
    await mkdir(host('dir'), { recursive: true });
    await expect(client.readAll('/workspace/dir')).rejects.toMatchObject({ code: 'is_directory' });
    await expect(client.write('/workspace/dir', Buffer.from(''))).rejects.toMatchObject({ code: 'is_directory' });
    await expect(client.readAll('/workspace/none')).rejects.toMatchObject({ code: 'not_found', errno: 2 });
    await expect(client.readAll('relative')).rejects.toMatchObject({ code: 'invalid' });
    await expect(client.readAll('/a\0b')).rejects.toMatchObject({ code: 'invalid' });
    await expect(client.readAll(`/${'x'.repeat(5000)}`)).rejects.toMatchObject({ code: 'name_too_long' });
  });
});

describe('calls', () => {
  test('a write that is aborted, fails or loses its connection leaves nothing', async () => {
    const before = await readdir(agent.host('workspace'));
    const abort = new AbortController();
    async function* endless() {
      for (;;) {
        yield randomBytes(100_000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
    const aborted = client.write('/workspace/never', endless(), { signal: abort.signal });
    setTimeout(() => abort.abort(new Error('enough')), 50);
    await expect(aborted).rejects.toThrow('enough');
    async function* broken() {
      yield randomBytes(100_000);
      throw new Error('source');
    }
    await expect(client.write('/workspace/never', broken())).rejects.toThrow('source');
    const other = await agent.client();
    const lost = other.write('/workspace/never', endless());
    setTimeout(() => other.close(), 50);
    await expect(lost).rejects.toBeInstanceOf(FileAgentDisconnectedError);
    await client.stat('/workspace');
    await expect.poll(() => readdir(agent.host('workspace'))).toEqual(before);
  });

  test('a reader that stops blocks no other call and costs no memory', async () => {
    await writeFile(host('large'), Buffer.alloc(64 << 20));
    const stalled = client.read('/workspace/large')[Symbol.asyncIterator]();
    await stalled.next();
    for (let round = 0; round < 50; round++) {
      expect(await client.stat('/workspace/large')).toMatchObject({ size: 64 << 20 });
    }
    expect((await client.readAll('/workspace/large', { length: 20 << 20 })).length).toBe(20 << 20);
    await stalled.return?.(undefined);
    expect((await client.readAll('/workspace/large', { length: 10 })).length).toBe(10);
  });

  test('many at once, more than a connection may have open', async () => {
    await client.write('/workspace/small', Buffer.from('small'));
    const reads = Array.from({ length: 2000 }, () => client.readAll('/workspace/small'));
    expect((await Promise.all(reads)).every((data) => data.toString() === 'small')).toBe(true);
    const writes = Array.from({ length: 200 }, (_, n) =>
      client.write(`/workspace/many/${n}`, Buffer.from(`${n}`), { createParents: true }),
    );
    await Promise.all(writes);
    expect((await readdir(host('many'))).length).toBe(200);
  });

  test('idleness is reported with the number of sockets received', async () => {
    await using other = await AgentProcess.start();
    const one = await other.client();
    const two = await other.client();
    await one.stat('/workspace');
    await two.stat('/workspace');
    one.close();
    two.close();
    await other.until('idle 2');
  });
});

describe('directories', () => {
  test('list in byte order, by pages, with links', async () => {
    await mkdir(host('listed'));
    const all = Array.from({ length: 1234 }, (_, n) => `f${n}`);
    await Promise.all(all.map((name) => writeFile(host('listed', name), name)));
    await symlink('/etc/passwd', host('listed', 'zlink'));
    const sorted = [...all, 'zlink'].sort();
    expect(await names(client.list('/workspace/listed'))).toEqual(sorted);
    const found: string[] = [];
    let cursor: Uint8Array | undefined;
    do {
      const page = client.list('/workspace/listed', { limit: 100, cursor });
      let next = await page.next();
      for (; !next.done; next = await page.next()) found.push(next.value.path);
      cursor = next.value.cursor;
    } while (cursor !== undefined);
    expect(found).toEqual(sorted);
    expect(await client.stat('/workspace/listed/zlink', { follow: false })).toMatchObject({
      type: 'symlink',
      target: Buffer.from('/etc/passwd'),
    });
  });

  test('mkdir, rename, symlink, remove', async () => {
    await client.mkdir('/workspace/m/n/o', { parents: true });
    await client.mkdir('/workspace/m/n/o', { parents: true });
    await client.mkdir('/workspace', { parents: true });
    await expect(client.mkdir('/workspace/m')).rejects.toMatchObject({ code: 'exists' });
    await client.write('/workspace/m/file', Buffer.from('x'));
    await expect(client.mkdir('/workspace/m/file/x', { parents: true })).rejects.toMatchObject({
      code: 'not_a_directory',
    });
    await client.rename('/workspace/m/file', '/workspace/new/place', { createParents: true });
    await client.write('/workspace/m/file', Buffer.from('y'));
    const kept = client.rename('/workspace/m/file', '/workspace/new/place', { replace: false });
    await expect(kept).rejects.toMatchObject({ code: 'exists' });
    const away = client.rename('/workspace/m/file', '/tmp/file');
    await expect(away).rejects.toMatchObject({ code: 'cross_device' });
    await client.symlink('nowhere', '/workspace/m/s');
    expect(await readlink(host('m/s'))).toBe('nowhere');
    await expect(client.remove('/workspace/m')).rejects.toMatchObject({ code: 'not_empty' });
    await expect(client.remove('/workspace/none')).rejects.toMatchObject({ code: 'not_found' });
    expect(await client.remove('/workspace/none', { missingOk: true })).toBe(0);
    expect(await client.remove('/workspace/m', { recursive: true })).toBe(5);
    await expect(stat(host('m'))).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(client.remove('/workspace', { recursive: true })).rejects.toMatchObject({ code: 'read_only' });
  });

  test('trees with closed directories go', async () => {
    await mkdir(host('closed/a/b'), { recursive: true });
    await writeFile(host('closed/a/b/f'), '');
    await chmod(host('closed/a/b'), 0o000);
    await chmod(host('closed/a'), 0o500);
    await chmod(host('closed'), 0o000);
    expect(await client.remove('/workspace/closed', { recursive: true })).toBe(4);
  });
});
