/** Writes that replace only what was read: nobody's change is lost without a word. */
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type FileAgentClient, FileAgentError } from '../src/files/index.ts';
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
const digest = (data: string | Uint8Array) => createHash('sha256').update(data).digest();

/** Whether the file was what it was taken for. */
async function replace(path: string, before: string, after: string | Uint8Array): Promise<boolean> {
  try {
    await client.write(path, Buffer.from(after), { unchanged: digest(before), closed: true });
    return true;
  } catch (error) {
    if (error instanceof FileAgentError && error.code === 'changed') return false;
    throw error;
  }
}

test('only the content that was read is replaced', async () => {
  await client.write('/workspace/one', Buffer.from('first'), { mode: 0o755 });
  expect(await replace('/workspace/one', 'other', 'never')).toBe(false);
  expect(await readFile(host('one'), 'utf8')).toBe('first');
  expect(await replace('/workspace/one', 'first', 'second')).toBe(true);
  expect(await readFile(host('one'), 'utf8')).toBe('second');
  expect((await stat(host('one'))).mode & 0o777).toBe(0o755);
  const large = Buffer.alloc(3 * 1024 * 1024, 'x');
  expect(await replace('/workspace/one', 'second', large)).toBe(true);
  expect(await replace('/workspace/one', 'second', large)).toBe(false);
  expect((await readFile(host('one'))).equals(large)).toBe(true);
  expect((await readdir(host())).filter((name) => name.startsWith('.'))).toEqual([]);
});

test('what is not there, is no file, or is too large, is not replaced', async () => {
  expect(await replace('/workspace/missing', '', 'x')).toBe(false);
  await mkdir(host('dir'));
  await expect(replace('/workspace/dir', '', 'x')).rejects.toMatchObject({ code: 'is_directory' });
  await symlink('dir', host('link'));
  await expect(replace('/workspace/link', '', 'x')).rejects.toMatchObject({ code: 'is_directory' });
  const file = host('huge');
  await writeFile(file, '');
  await truncate(file, 64 * 1024 * 1024 + 1);
  await expect(replace('/workspace/huge', '', 'x')).rejects.toMatchObject({ code: 'too_large' });
  await rm(file);
  const twice = client.write('/workspace/one', Buffer.from(''), { unchanged: digest(''), exclusive: true });
  await expect(twice).rejects.toMatchObject({ code: 'invalid' });
  const short = client.write('/workspace/one', Buffer.from(''), { unchanged: Buffer.alloc(31) });
  await expect(short).rejects.toMatchObject({ code: 'invalid' });
});

test('a file that is closed for writing keeps its mode', async () => {
  await client.write('/workspace/closed', Buffer.from('a'));
  await chmod(host('closed'), 0o444);
  expect(await replace('/workspace/closed', 'a', 'b')).toBe(true);
  expect((await stat(host('closed'))).mode & 0o777).toBe(0o444);
  expect(await readFile(host('closed'), 'utf8')).toBe('b');
});

test('of callers who have read the same, one succeeds: a counter loses nothing', async () => {
  await client.write('/workspace/counter', Buffer.from('0'));
  const add = async (): Promise<void> => {
    for (;;) {
      const before = (await client.readAll('/workspace/counter')).toString();
      if (await replace('/workspace/counter', before, String(Number(before) + 1))) return;
    }
  };
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let round = 0; round < 50; round += 1) await add();
    }),
  );
  expect(await readFile(host('counter'), 'utf8')).toBe('400');
});

test('what somebody else puts there meanwhile stays', async () => {
  await client.write('/workspace/raced', Buffer.from('0:'));
  let over = false;
  let lost = 0;
  const racer = (async () => {
    for (let token = 1; !over; token += 1) {
      await writeFile(host('next'), `${token}:`);
      await rename(host('next'), host('raced'));
      // What was read before may be seen for the moment of an exchange that is taken back.
      let looks = 0;
      while (looks < 1000 && (await readFile(host('raced'), 'utf8')).split(':')[0] !== String(token)) looks += 1;
      if (looks === 1000) lost += 1;
    }
  })();
  let replaced = 0;
  let refused = 0;
  for (let round = 0; round < 2000; round += 1) {
    const before = (await client.readAll('/workspace/raced')).toString();
    if (await replace('/workspace/raced', before, `${before}+`)) replaced += 1;
    else refused += 1;
  }
  over = true;
  await racer;
  expect(lost).toBe(0);
  expect(Math.min(replaced, refused)).toBeGreaterThan(0);
  expect((await readdir(host())).filter((name) => name.startsWith('.boxkite'))).toEqual([]);
});

test('a write tells the hash of what was sent', async () => {
  for (const size of [0, 10, 3 * 1024 * 1024]) {
    const data = Buffer.alloc(size, 'y');
    expect((await client.writeHashed('/workspace/hashed', data)).equals(digest(data))).toBe(true);
    const unchanged = digest(data);
    expect((await client.writeHashed('/workspace/hashed', Buffer.from('z'), { unchanged })).equals(digest('z'))).toBe(
      true,
    );
  }
});

test('small calls do not wait for what is compared', async () => {
  const large = Buffer.alloc(60 << 20, 'x');
  const unchanged = digest(large);
  const paths = Array.from({ length: 8 }, (_, at) => `/workspace/compared${at}`);
  let least = 1;
  // A round that something else on the machine disturbs says nothing; that small calls never wait takes one to show.
  for (let round = 0; round < 5 && least >= 0.12; round += 1) {
    for (const path of paths) await client.write(path, large);
    const from = performance.now();
    let over = false;
    const writes = Promise.all(paths.map((path) => client.write(path, Buffer.alloc(1 << 20), { unchanged })));
    const end = writes.finally(() => {
      over = true;
    });
    let longest = 0;
    while (!over) {
      const asked = performance.now();
      await client.stat('/workspace');
      longest = Math.max(longest, performance.now() - asked);
    }
    await end;
    least = Math.min(least, longest / (performance.now() - from));
  }
  expect(least).toBeLessThan(0.12);
});
