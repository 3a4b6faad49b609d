import { execFileSync } from 'node:child_process';
import { chmod, link, lstat, mkdir, readdir, readFile, readlink, symlink, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FileAgentClient } from '../src/files/index.ts';
import { AgentProcess } from './files/agent-process.ts';
import { type TarMember, tarOf } from './files/tar-builder.ts';

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

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

const hostile: readonly [what: string, members: readonly TarMember[], code?: string][] = [
  ['..', [{ name: 'ok' }, { name: '../evil' }]],
  ['.. in the middle', [{ name: 'a/../../evil' }]],
  ['an absolute path', [{ name: '/workspace/evil' }]],
  ['a link, then a file through it', [{ name: 'l', type: '2', link: '/tmp' }, { name: 'l/evil' }]],
  [
    'a link, then a directory through it',
    [
      { name: 'l', type: '2', link: '..' },
      { name: 'l/evil', type: '5' },
    ],
  ],
  ['a hard link to the outside', [{ name: 'h', type: '1', link: '../secret' }]],
  ['a hard link to what is not in it', [{ name: 'h', type: '1', link: 'secret' }]],
  [
    'a hard link to a link',
    [
      { name: 'l', type: '2', link: '/tmp/x' },
      { name: 'h', type: '1', link: 'l' },
    ],
  ],
  [
    'a hard link through a link',
    [
      { name: 'l', type: '2', link: '..' },
      { name: 'h', type: '1', link: 'l/secret' },
    ],
  ],
  ['a character device', [{ name: 'd', type: '3' }]],
  ['a block device', [{ name: 'd', type: '4' }]],
  ['a pipe', [{ name: 'd', type: '6' }]],
  ['an unknown kind', [{ name: 'd', type: 'S' }]],
  ['too many entries', Array.from({ length: 21 }, (_, n) => ({ name: `f${n}` })), 'too_large'],
  ['too many bytes', [{ name: 'f', body: 'x'.repeat(10_001) }], 'too_large'],
  ['a bomb by its header', [{ name: 'f', size: 0o7777777777 }], 'too_large'],
  ['too deep', [{ name: `${'d/'.repeat(11)}f` }]],
  ['a file over a directory', [{ name: 'd/f' }, { name: 'd' }]],
  ['a directory over a file', [{ name: 'd' }, { name: 'd/f' }]],
];

test.each(hostile)(
  '%s is refused and leaves nothing',
  async (_what, members: readonly TarMember[] = [], code = 'refused') => {
    await writeFile(host('secret'), 'secret');
    await client.mkdir('/workspace/there', { parents: true });
    const before = await readdir(host(), { recursive: true });
    const limits = { maxEntries: 20, maxBytes: 10_000, maxDepth: 10 };
    for (const path of ['/workspace/new', '/workspace/there']) {
      await expect(client.archiveIn(path, tarOf(...members), limits)).rejects.toMatchObject({ code });
    }
    expect(await readdir(host(), { recursive: true })).toEqual(before);
    expect(await readdir(agent.host('tmp'))).toEqual([]);
  },
);

test('what is cut off or no archive is refused and leaves nothing', async () => {
  const before = await readdir(host(), { recursive: true });
  const whole = tarOf({ name: 'f', body: 'x'.repeat(2000) });
  for (const bytes of [whole.subarray(0, 700), whole.subarray(0, 2560), Buffer.alloc(0), Buffer.alloc(512, 'x')]) {
    await expect(client.archiveIn('/workspace/cut', bytes)).rejects.toMatchObject({ code: 'refused' });
  }
  async function* stalls() {
    yield whole.subarray(0, 600);
    await new Promise(() => undefined);
  }
  const signal = AbortSignal.timeout(100);
  await expect(client.archiveIn('/workspace/cut', stalls(), { signal })).rejects.toMatchObject({
    name: 'TimeoutError',
  });
  await client.stat('/workspace');
  await expect.poll(() => readdir(host(), { recursive: true })).toEqual(before);
});

test('setuid, setgid and sticky are stripped', async () => {
  await client.archiveIn(
    '/workspace/modes',
    tarOf({ name: 'f', mode: 0o6755 }, { name: 'd', type: '5', mode: 0o3555 }),
  );
  expect((await lstat(host('modes/f'))).mode & 0o7777).toBe(0o755);
  expect((await lstat(host('modes/d'))).mode & 0o7777).toBe(0o755);
});

test('an archive is merged, and a merge that fails is rolled back', async () => {
  await mkdir(host('into/d/e'), { recursive: true });
  await writeFile(host('into/d/old'), 'old');
  await writeFile(host('into/d/both'), 'old');
  await mkdir(host('into/z'));
  const members = [
    { name: 'a', body: 'a' },
    { name: 'd/both', body: 'new' },
    { name: 'd/e/f', body: 'f' },
  ];
  const state = async () =>
    Object.fromEntries(
      await Promise.all(
        (await readdir(host('into'), { recursive: true, withFileTypes: true }))
          .filter((entry) => entry.isFile())
          .map(async (entry) => [entry.name, await readFile(`${entry.parentPath}/${entry.name}`, 'utf8')] as const),
      ),
    );
  const fails = client.archiveIn('/workspace/into', tarOf(...members, { name: 'z', body: 'over a directory' }));
  await expect(fails).rejects.toMatchObject({ code: 'is_directory' });
  const keeps = client.archiveIn('/workspace/into', tarOf(...members), { keepExisting: true });
  await expect(keeps).rejects.toMatchObject({ code: 'exists' });
  expect(await state()).toEqual({ old: 'old', both: 'old' });
  expect(await client.archiveIn('/workspace/into', tarOf(...members))).toEqual({ entries: 3, bytes: 5 });
  expect(await state()).toEqual({ old: 'old', both: 'new', a: 'a', f: 'f' });
  expect((await readdir(host('into'))).sort()).toEqual(['a', 'd', 'z']);
});

test('a link in the destination is not merged through', async () => {
  await mkdir(host('target'));
  await mkdir(host('linked'));
  await symlink('../target', host('linked/d'));
  const merged = client.archiveIn('/workspace/linked', tarOf({ name: 'd/f', body: 'x' }));
  await expect(merged).rejects.toMatchObject({ code: 'not_a_directory' });
  expect(await readdir(host('target'))).toEqual([]);
});

test('out and in again by tar itself, with long names, links and modes', async () => {
  const long = `${'n'.repeat(90)}/${'m'.repeat(120)}`;
  await mkdir(host('tree', 'n'.repeat(90)), { recursive: true });
  await writeFile(host('tree', long), 'long');
  // Where an archive cuts names at 100 bytes, these end in a slash: as ours has them, and as tar does.
  for (const length of [99, 97]) {
    await mkdir(host('tree', 's'.repeat(length)));
    await writeFile(host('tree', 's'.repeat(length), 'file'), 'is no directory');
  }
  await writeFile(host('tree/.hidden'), 'hidden', { mode: 0o600 });
  await writeFile(host('tree/large'), Buffer.alloc(3_000_001, 'l'));
  await symlink('x'.repeat(200), host('tree/link'));
  await link(host('tree/large'), host('tree/second'));
  await chmod(host('tree/large'), 0o640);
  const bytes = await collect(client.archiveOut('/workspace/tree'));
  await mkdir(agent.host('by-tar'));
  execFileSync('tar', ['-x', '-C', agent.host('by-tar')], { input: bytes });
  execFileSync('diff', ['-r', '--no-dereference', host('tree'), agent.host('by-tar')]);
  for (const format of ['gnu', 'pax']) {
    const made = execFileSync('tar', [`--format=${format}`, '-c', '-C', host('tree'), '.'], { maxBuffer: 1 << 26 });
    await client.archiveIn(`/workspace/from-${format}`, made);
    execFileSync('diff', ['-r', '--no-dereference', host('tree'), host(`from-${format}`)]);
    expect((await lstat(host(`from-${format}/large`))).mode & 0o777).toBe(0o640);
    expect((await lstat(host(`from-${format}/second`))).nlink).toBe(2);
    expect(await readlink(host(`from-${format}/link`))).toBe('x'.repeat(200));
  }
});

test('of an old archive, whose directories have a slash for a type', async () => {
  await client.archiveIn('/workspace/old', tarOf({ name: 'd/', type: '0' }, { name: 'd/f', type: '0', body: 'x' }));
  expect((await lstat(host('old/d'))).isDirectory()).toBe(true);
  expect(await readFile(host('old/d/f'), 'utf8')).toBe('x');
});
