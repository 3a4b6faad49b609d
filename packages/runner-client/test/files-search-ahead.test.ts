/** Searches whose files several threads read at one time: the answer is that of a search from the first file to the last. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type FileAgentClient, FileAgentError, type SearchEnd, type SearchOptions } from '../src/files/index.ts';
import { AgentProcess } from './files/agent-process.ts';

const FILES = 600;
const BINARY = 77;
const LARGE = 200;
const LARGE_LINES = 9000;

let agent: AgentProcess;
let client: FileAgentClient;

interface Line {
  readonly path: string;
  readonly line: number;
  /** Bytes of the tree up to the end of its file. */
  readonly read: number;
}

const expected: Line[] = [];
let bytes = 0;

/** Every third file has as many needles as its number says, one has more than fit in a step, one a NUL byte. */
function contentOf(at: number): string {
  if (at === BINARY) return `needle\nplain\0${'needle\n'.repeat(5)}`;
  const needles = at === LARGE ? LARGE_LINES : at % 3 === 0 ? at % 7 : 0;
  return `plain ${at}\n${`needle ${'x'.repeat(40)}\n`.repeat(needles)}${'plain\n'.repeat(at % 50)}`;
}

beforeAll(async () => {
  agent = await AgentProcess.start();
  client = await agent.client();
  for (let at = 0; at < FILES; at += 1) {
    const path = `d${String(Math.floor(at / 50)).padStart(2, '0')}/f${String(at).padStart(3, '0')}`;
    const content = contentOf(at);
    await client.write(`/workspace/tree/${path}`, Buffer.from(content), { createParents: true });
    bytes += content.length;
    if (at === BINARY) expected.push({ path, line: 0, read: bytes });
    else
      content.split('\n').forEach((text, index) => {
        if (text.startsWith('needle')) expected.push({ path, line: index + 1, read: bytes });
      });
  }
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
});

const shown = ({ path, line }: { readonly path: string; readonly line: number }) => `${path}:${line}`;

async function search(options: SearchOptions = {}): Promise<{ readonly lines: string[]; readonly end: SearchEnd }> {
  const lines: string[] = [];
  const records = client.search('/workspace/tree', 'needle', options);
  for (;;) {
    const next = await records.next();
    if (next.done) return { lines, end: next.value };
    lines.push(shown(next.value));
  }
}

test('find everything, in the order of the walk, at every repetition', async () => {
  const text = expected.filter(({ line }) => line > 0);
  for (let round = 0; round < 20; round += 1) {
    const { lines, end } = await search({ exclude: ['d01/f077'] });
    expect(lines).toEqual(text.map(shown));
    expect(end).toMatchObject({ matches: text.length, files: FILES - 1, skipped: 0, binary: 0, truncated: false });
  }
});

test('are cut at the same match, wherever that is', async () => {
  const text = expected.filter(({ line }) => line > 0);
  const options = { exclude: ['d01/f077'] };
  for (let round = 0; round < 150; round += 1) {
    const maxMatches = 1 + Math.floor(Math.random() * (round % 2 === 0 ? text.length : 300));
    const { lines, end } = await search({ ...options, maxMatches });
    expect(lines, `of ${maxMatches}`).toEqual(text.slice(0, maxMatches).map(shown));
    expect([end.matches, end.truncated]).toEqual([maxMatches, maxMatches < text.length]);
  }
  expect((await search({ ...options, maxMatches: text.length })).end.truncated).toBe(false);
});

test('read no more than they may, and find what is in that', async () => {
  for (let round = 0; round < 100; round += 1) {
    const maxBytes = 1 + Math.floor(Math.random() * (bytes - 1));
    const { lines, end } = await search({ maxBytes, binaryAsText: true });
    const whole = expected.filter(({ read, line }) => read <= maxBytes && line > 0).map(shown);
    expect(lines.filter((line) => !line.startsWith('d01/f077')).slice(0, whole.length), `of ${maxBytes} bytes`).toEqual(
      whole,
    );
    expect(end.truncated, `of ${maxBytes} bytes`).toBe(true);
  }
  expect((await search({ maxBytes: bytes, binaryAsText: true })).end.truncated).toBe(false);
});

test('pass over the same files, and count them, up to where they end', async () => {
  const { end } = await search({ maxFileBytes: 1000 });
  const skipped = Array.from({ length: FILES }, (_, at) => contentOf(at).length).filter((size) => size > 1000).length;
  expect(end).toMatchObject({ skipped, files: FILES - skipped, truncated: false });
  expect((await search({ maxFileBytes: 1000, maxMatches: 1 })).end.skipped).toBe(0);
  expect((await search({ exclude: ['d01/f077'], maxPerFile: 1 })).end.matches).toBe(
    new Set(expected.filter(({ line }) => line > 0).map(({ path }) => path)).size,
  );
});

test('are forty at one time as they are alone', async () => {
  const { lines } = await search();
  const many = await Promise.all(Array.from({ length: 40 }, () => search()));
  for (const each of many) expect(each.lines).toEqual(lines);
});

test('hold nothing once they are left', async () => {
  const { lines } = await search();
  // Each has more than a hundred files open; the agent may have a thousand.
  for (let round = 0; round < 60; round += 1) {
    const records = client.search('/workspace/tree', 'e');
    for (let at = 0; at <= round; at += 1) await records.next();
    await records.return({ matches: 0, files: 0, filesMatched: 0, skipped: 0, binary: 0, truncated: true });
  }
  const after = await search();
  expect(after.lines).toEqual(lines);
  expect(after.end.skipped).toBe(0);
});

test('find in a file what they find in it alone, whatever was read before', async () => {
  const found = async (options: SearchOptions) => {
    const paths: string[] = [];
    const records = client.search('/workspace/mixed', 'needle', options);
    for (;;) {
      const next = await records.next();
      if (next.done) return { paths, end: next.value };
      paths.push(next.value.path);
    }
  };
  // A long line makes what is read at one time larger, and a NUL byte hides what was read with it.
  const count = 20;
  for (let at = 0; at < count; at += 1) {
    await client.write(`/workspace/mixed/${at}a`, Buffer.from(`${'x'.repeat(at % 2 === 0 ? 300_000 : 1_200_000)}\n`), {
      createParents: true,
    });
    await client.write(`/workspace/mixed/${at}b`, Buffer.from(`needle\n${'plain\n'.repeat(15_000)}\0`));
  }
  const alone = await found({ include: ['0b'] });
  expect(alone.end).toMatchObject({ matches: 1, binary: 1 });
  const all = await found({});
  expect(all.end).toMatchObject({ matches: count, binary: count });
  for (let round = 0; round < 20; round += 1) expect(await found({})).toEqual(all);
});

test('leave a second search its part of the threads', async () => {
  const count = 3000;
  for (let at = 0; at < count; at += 1) {
    const [dir, content] = [`/workspace/shared/d${at % 6}`, `needle ${'x'.repeat(300)}\n${'plain\n'.repeat(700)}`];
    await client.write(`${dir}/${at}`, Buffer.from(content), { createParents: true });
  }
  const clients = [client, await agent.client()];
  let shares = 0;
  const rounds = 20;
  for (let round = 0; round < rounds; round += 1) {
    const found = [0, 0];
    const searches = clients.map(async (each, at) => {
      for await (const _ of each.search('/workspace/shared', 'needle')) found[at] = (found[at] ?? 0) + 1;
    });
    await Promise.race(searches);
    shares += Math.min(...found) / count;
    await Promise.all(searches);
  }
  // What the other one had when the first had all.
  expect(shares / rounds).toBeGreaterThan(0.5);
});

test('say that no descriptor is left, and pass over no file because of it', async () => {
  const deep = `/workspace/deep${'/d'.repeat(25)}`;
  const count = 100;
  for (let at = 0; at < count; at += 1) {
    await client.write(`${deep}/${at}`, Buffer.from(`needle ${'x'.repeat(900)}\n`), { createParents: true });
  }
  const outcomes = Array.from({ length: 240 }, async () => {
    try {
      let found = 0;
      for await (const _ of client.search('/workspace/deep', 'needle')) found += 1;
      return found === count ? 'all' : `${found}`;
    } catch (error) {
      return error instanceof FileAgentError ? error.code : error;
    }
  });
  expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['limit', 'all']));
});
