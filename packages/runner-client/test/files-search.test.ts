import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FileAgentClient, FileEvent, SearchOptions, WalkOptions } from '../src/files/index.ts';
import { AgentProcess } from './files/agent-process.ts';

let agent: AgentProcess;
let client: FileAgentClient;

const files: Readonly<Record<string, string>> = {
  'a.ts': 'one\nneedle here\nthree\n',
  'b/c.ts': 'Needle and needle\nno newline: needle',
  'b/d/e.txt': 'x\ny\nneedle\nz\n',
  'b/ignored.log': 'needle\n',
  '.hidden/f.ts': 'needle\n',
  '.gitignore': '*.log\n/only-here\n',
  'b/.gitignore': '!kept.log\n',
  'b/kept.log': 'needle\n',
  'only-here': 'needle\n',
  'b/only-here': 'needle\n',
  binary: 'needle\0needle\n',
};

beforeAll(async () => {
  agent = await AgentProcess.start();
  client = await agent.client();
  for (const [path, text] of Object.entries(files)) {
    await client.write(`/workspace/${path}`, Buffer.from(text), { createParents: true });
  }
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
});

async function walk(options: WalkOptions = {}): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of client.walk('/workspace', options)) found.push(entry.path);
  return found;
}

async function search(pattern: string, options: SearchOptions = {}): Promise<string[]> {
  const found: string[] = [];
  for await (const { kind, path, line, bytes } of client.search('/workspace', pattern, options)) {
    found.push(`${kind} ${path}:${line}:${Buffer.from(bytes).toString().trimEnd()}`);
  }
  return found;
}

test('a walk in order, with its options', async () => {
  const visible = ['a.ts', 'b', 'b/c.ts', 'b/d', 'b/d/e.txt', 'b/ignored.log', 'b/kept.log', 'b/only-here'];
  expect(await walk()).toEqual([...visible, 'binary', 'only-here']);
  expect(await walk({ maxDepth: 1 })).toEqual(['a.ts', 'b', 'binary', 'only-here']);
  expect(await walk({ include: ['**/*.ts'] })).toEqual(['a.ts', 'b/c.ts']);
  expect(await walk({ include: ['*.ts'] })).toEqual(['a.ts']);
  expect(await walk({ include: ['**/*.ts'], hidden: true })).toEqual(['.hidden/f.ts', 'a.ts', 'b/c.ts']);
  expect(await walk({ exclude: ['b/d'], only: 'files' })).not.toContain('b/d/e.txt');
  expect(await walk({ only: 'directories' })).toEqual(['b', 'b/d']);
  expect(await walk({ respectIgnoreFiles: true })).toEqual([
    ...visible.filter((path) => path !== 'b/ignored.log'),
    'binary',
  ]);
  await expect(walk({ include: ['[z'] })).rejects.toMatchObject({ code: 'pattern' });
});

test('pages of a walk are the walk', async () => {
  const all = await walk({ hidden: true });
  for (const limit of [1, 2, 5]) {
    const found: string[] = [];
    let cursor: Uint8Array | undefined;
    do {
      const page = client.walk('/workspace', { hidden: true, limit, cursor });
      let next = await page.next();
      for (; !next.done; next = await page.next()) found.push(next.value.path);
      cursor = next.value.cursor;
    } while (cursor !== undefined);
    expect(found).toEqual(all);
  }
});

test('a search with its options', async () => {
  expect(await search('needle', { respectIgnoreFiles: true })).toEqual([
    'match a.ts:2:needle here',
    'match b/c.ts:1:Needle and needle',
    'match b/c.ts:2:no newline: needle',
    'match b/d/e.txt:3:needle',
    'match b/kept.log:1:needle',
    'match b/only-here:1:needle',
  ]);
  expect(await search('NEEDLE.h', { ignoreCase: true })).toEqual(['match a.ts:2:needle here']);
  expect(await search('e+.dle', { fixed: true })).toEqual([]);
  expect(await search('eedle', { word: true })).toEqual([]);
  expect(await search('needle', { include: ['**/e.txt'], before: 1, after: 5 })).toEqual([
    'context b/d/e.txt:2:y',
    'match b/d/e.txt:3:needle',
    'context b/d/e.txt:4:z',
  ]);
  expect(await search('needle', { maxMatches: 2 })).toHaveLength(2);
  expect(await search('needle', { include: ['b/c.ts'], maxPerFile: 1 })).toHaveLength(1);
  expect((await search('needle', { include: ['binary'], binaryAsText: true }))[0]).toMatch(/^match binary:1:/);
  await expect(search('a(')).rejects.toMatchObject({ code: 'pattern' });
  await expect(search('a{1000}{1000}{1000}')).rejects.toMatchObject({ code: 'pattern' });
});

test('spans and ends', async () => {
  const found = client.search('/workspace/b/c.ts', 'need', { ignoreCase: true });
  const first = await found.next();
  expect(first.value).toMatchObject({
    spans: [
      [0, 4],
      [11, 15],
    ],
    offset: 0,
    length: 18,
  });
  await found.next();
  expect((await found.next()).value).toEqual({
    matches: 2,
    files: 1,
    filesMatched: 1,
    skipped: 0,
    binary: 0,
    truncated: false,
  });
});

test('a file with more matches than fit in memory is searched to its end', async () => {
  const lines = Array.from({ length: 100_000 }, (_, n) => (n % 2 === 0 ? `needle ${n} ${'x'.repeat(60)}` : `gap ${n}`));
  await client.write('/tmp/large', Buffer.from(lines.join('\n')));
  let line = 0;
  let context = 0;
  for await (const record of client.search('/tmp/large', 'needle', { before: 1 })) {
    const text = Buffer.from(record.bytes).toString().trimEnd();
    if (record.line !== ++line || text !== lines[line - 1]) expect.unreachable(`line ${record.line} is "${text}"`);
    if (record.kind === 'context') context++;
  }
  expect([line, context]).toEqual([99_999, 49_999]);
});

test('a watch reports changes, in new directories too', async () => {
  await mkdir(agent.host('workspace/watched'));
  const events = await client.watch('/workspace/watched', { recursive: true });
  const seen: FileEvent[] = [];
  const reading = (async () => {
    for await (const event of events) {
      seen.push(event);
      if (event.path === 'end') break;
    }
  })();
  await mkdir(agent.host('workspace/watched/new/below'), { recursive: true });
  await writeFile(agent.host('workspace/watched/new/below/file'), 'x');
  await expect.poll(() => seen.some((event) => event.path === 'new/below/file')).toBe(true);
  await rename(agent.host('workspace/watched/new'), agent.host('workspace/watched/moved'));
  await rm(agent.host('workspace/watched/moved/below/file'));
  await expect.poll(() => seen.some((e) => e.kind === 'removed' && e.path === 'moved/below/file')).toBe(true);
  await writeFile(agent.host('workspace/watched/end'), '');
  await reading;
  const [from, to] = ['moved_from', 'moved_to'].map((kind) => seen.find((event) => event.kind === kind));
  expect(from).toMatchObject({ path: 'new', directory: true });
  expect(to).toMatchObject({ path: 'moved', cookie: from?.cookie });
  await client.remove('/workspace/watched', { recursive: true });
});

test('a search reads no more than it may', async () => {
  const line = `needle ${'x'.repeat(57)}\n`;
  for (const name of ['m1', 'm2', 'm3']) {
    await client.write(`/workspace/much/${name}`, Buffer.from(line.repeat(2048)), { createParents: true });
  }
  const end = async (maxBytes: number) => {
    const records = client.search('/workspace/much', 'needle', { maxBytes });
    let next = await records.next();
    while (!next.done) next = await records.next();
    return next.value;
  };
  const whole = 3 * 2048 * line.length;
  expect(await end(0)).toMatchObject({ matches: 3 * 2048, truncated: false });
  expect(await end(whole)).toMatchObject({ matches: 3 * 2048, truncated: false });
  const some = await end(whole / 2);
  expect(some.truncated).toBe(true);
  expect(some.matches).toBeGreaterThan(1000);
  expect(some.matches).toBeLessThanOrEqual(3 * 1024);
  expect(await end(1)).toMatchObject({ matches: 0, truncated: true });
});

test("a shell's globs cross directories, and match names and whole paths", async () => {
  await client.write('/workspace/glob/a/b.py', Buffer.from('needle'), { createParents: true });
  await client.write('/workspace/glob/c.py', Buffer.from('needle'));
  await client.write('/workspace/glob/d{e}.py', Buffer.from('needle'));
  const found = async (...include: string[]) => {
    const paths: string[] = [];
    const options = { include, shellGlobs: true };
    for await (const { path } of client.search('/workspace/glob', 'needle', options)) paths.push(path);
    return paths;
  };
  expect(await found('*.py')).toEqual(['a/b.py', 'c.py', 'd{e}.py']);
  expect(await found('b.*')).toEqual(['a/b.py']);
  expect(await found('a*y')).toEqual(['a/b.py']);
  expect(await found('workspace/glob/?.py')).toEqual(['c.py']);
  expect(await found('[!c].py')).toEqual(['a/b.py']);
  expect(await found('d[{]e[}].py')).toEqual(['d{e}.py']);
  expect(await found('glob/*')).toEqual([]);
});
