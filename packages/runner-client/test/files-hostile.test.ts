import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, rmdirSync } from 'node:fs';
import { access, link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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

async function count(items: AsyncIterable<unknown>): Promise<number> {
  let found = 0;
  for await (const _ of items) found++;
  return found;
}

test('removals of one tree at one time end well, all of them', async () => {
  for (let round = 0; round < 150; round += 1) {
    for (let at = 0; at < 6; at += 1) mkdirSync(host('many', `a${at}`, 'b', 'c'), { recursive: true });
    const removals = Array.from({ length: 6 }, () =>
      client.remove('/workspace/many', { recursive: true, missingOk: true }),
    );
    await Promise.all(removals);
    expect(existsSync(host('many'))).toBe(false);
  }
});

test('directories that go while they are walked do not end the walk', async () => {
  const names = Array.from({ length: 20 }, (_, at) => host('coming', `d${at}`));
  for (const name of names) mkdirSync(name, { recursive: true });
  for (let round = 0; round < 60; round += 1) {
    const walks = Array.from({ length: 20 }, () => count(client.walk('/workspace/coming')));
    await new Promise(setImmediate);
    // In one go, so that the agent is met at every point.
    for (const until = performance.now() + 10; performance.now() < until; ) {
      for (const name of names) {
        rmdirSync(name);
        mkdirSync(name);
      }
    }
    await Promise.all(walks);
  }
});

describe('links', () => {
  test.each(['/etc/passwd', '/proc/self/environ', '../../../../etc/passwd', '/proc/1/root/etc/passwd', '/dev/zero'])(
    'one to %s leads nowhere',
    async (target) => {
      await rm(host('link'), { force: true });
      await symlink(target, host('link'));
      await expect(client.readAll('/workspace/link')).rejects.toMatchObject({ code: 'not_found' });
      // The directory that the link leads to is not there, or is the read-only root.
      const write = client.write('/workspace/link', Buffer.from('x'));
      await expect(write).rejects.toHaveProperty('code', expect.stringMatching(/^(not_found|read_only)$/));
      await expect(access('/etc/boxkite-never')).rejects.toThrow();
    },
  );

  test('one into uploads resolves, a circle does not', async () => {
    await writeFile(agent.host('uploads', 'given'), 'given');
    await symlink('/mnt/user-data/uploads/given', host('given'));
    expect((await client.readAll('/workspace/given')).toString()).toBe('given');
    await symlink('circle', host('circle'));
    await expect(client.readAll('/workspace/circle')).rejects.toMatchObject({ code: 'loop' });
    await expect(client.write('/workspace/circle', Buffer.from(''))).rejects.toMatchObject({ code: 'loop' });
  });

  test('removal, walk and search do not follow any', async () => {
    await mkdir(host('outside'));
    await writeFile(host('outside/kept'), 'needle');
    await mkdir(host('tree'));
    await symlink('../outside', host('tree/dir'));
    await symlink('../outside/kept', host('tree/file'));
    expect(await count(client.walk('/workspace/tree'))).toBe(2);
    expect(await count(client.search('/workspace/tree', 'needle'))).toBe(0);
    await client.remove('/workspace/tree', { recursive: true });
    await access(host('outside/kept'));
  });

  test('a race of exchanges reaches nothing outside', async () => {
    await writeFile(host('inside'), 'inside');
    await symlink('/etc/hostname', host('swap'));
    await link(host('inside'), host('swapped'));
    let over = false;
    const racer = (async () => {
      while (!over) {
        await rename(host('swap'), host('third'));
        await rename(host('swapped'), host('swap'));
        await rename(host('third'), host('swapped'));
      }
    })();
    const seen = new Set<string>();
    for (let round = 0; round < 3000; round++) {
      try {
        seen.add((await client.readAll('/workspace/swap')).toString());
      } catch (error) {
        seen.add(error instanceof FileAgentError ? error.code : String(error));
      }
    }
    over = true;
    await racer;
    expect([...seen].sort()).toEqual(['inside', 'not_found']);
  });
});

describe('files that wait', () => {
  test('pipes, sockets and ignore files that are pipes block nobody', async () => {
    execFileSync('mkfifo', [host('pipe')]);
    await expect(client.readAll('/workspace/pipe')).rejects.toMatchObject({ code: 'not_a_file' });
    await expect(client.write('/workspace/pipe', Buffer.from(''))).rejects.toMatchObject({ code: 'not_a_file' });
    await expect(client.hash('/workspace/pipe')).rejects.toMatchObject({ code: 'not_a_file' });
    await mkdir(host('pipes'));
    execFileSync('mkfifo', [host('pipes/.gitignore'), host('pipes/data')]);
    await writeFile(host('pipes/file'), 'needle');
    expect(await count(client.search('/workspace/pipes', 'needle', { respectIgnoreFiles: true }))).toBe(1);
    expect(await count(client.archiveOut('/workspace/pipes'))).toBeGreaterThan(0);
  });
});

describe('trees', () => {
  test('100,000 levels are removed', async () => {
    await using other = await AgentProcess.start({ base: '/dev/shm' });
    const deep = other.host('workspace', 'deep');
    await mkdir(deep);
    const script = [
      'import os, sys',
      'os.chdir(sys.argv[1])',
      'for n in range(100000):',
      ' os.mkdir("d"); os.chdir("d")',
      'open("f", "w").close()',
    ];
    execFileSync('python3', ['-c', script.join('\n'), deep]);
    const removing = await other.client();
    expect(await removing.remove('/workspace/deep', { recursive: true })).toBe(100_002);
  }, 60_000);

  test('a moved tree ends the removal instead of leading it elsewhere', async () => {
    const names = Array.from({ length: 60 }, (_, n) => `d${n}`).join('/');
    await mkdir(host('moving', names), { recursive: true });
    await mkdir(host('elsewhere/kept'), { recursive: true });
    await rename(host('moving/d0/d1'), host('elsewhere/d1'));
    await client.remove('/workspace/moving', { recursive: true });
    await access(host('elsewhere/d1/d2'));
    await access(host('elsewhere/kept'));
  });
});

describe('a full file system', () => {
  test('is an error, and leaves nothing', async () => {
    await using full = await AgentProcess.start({ workspace: 'tmpfs:size=1m,nr_inodes=40' });
    const other = await full.client();
    const big = other.write('/workspace/big', randomBytes(3 << 20));
    await expect(big).rejects.toMatchObject({ code: 'no_space', errno: 28 });
    expect(await count(other.list('/workspace'))).toBe(0);
    await other.write('/workspace/fits', randomBytes(900 << 10));
    const append = other.write('/workspace/fits', randomBytes(300 << 10), { append: true });
    await expect(append).rejects.toMatchObject({ code: 'no_space' });
    expect(await other.stat('/workspace/fits')).toMatchObject({ size: 900 << 10 });
    await other.remove('/workspace/fits');
    for (let n = 0; n < 100; n++) {
      try {
        await other.mkdir(`/workspace/${n}`);
      } catch (error) {
        expect(error).toMatchObject({ code: 'no_space' });
        return;
      }
    }
    expect.unreachable('100 directories fit in 40 inodes');
  });
});

describe('frames of a hostile client', () => {
  test('5,000 random ones end their connections, never the agent', async () => {
    const frame = fc.record({
      length: fc.oneof(fc.nat(64), fc.constant(0xffff_ffff)),
      version: fc.oneof({ weight: 20, arbitrary: fc.constant(1) }, fc.nat(255)),
      type: fc.oneof(fc.nat(255), fc.integer({ min: 1, max: 15 }), fc.integer({ min: 0x40, max: 0x43 })),
      flags: fc.oneof(fc.constant(0), fc.nat(0xffff)),
      id: fc.nat(20),
      body: fc.oneof(fc.uint8Array({ maxLength: 64 }), fc.constant(payload('/workspace'))),
    });
    for (const batch of fc.sample(fc.array(frame, { minLength: 50, maxLength: 50 }), 100)) {
      const socket = await agent.socket();
      socket.on('error', () => undefined).resume();
      for (const { length, version, type, flags, id, body } of batch) {
        const header = Buffer.alloc(12);
        header.writeUInt32LE(length === 0xffff_ffff ? length : body.length, 0);
        header.set([version, type], 4);
        header.writeUInt16LE(flags, 6);
        header.writeUInt32LE(id, 8);
        socket.write(Buffer.concat([header, body]));
      }
      await new Promise<void>((resolve) => socket.end(() => resolve()));
      socket.destroy();
    }
    expect(await client.stat('/workspace')).toMatchObject({ type: 'directory' });
    expect(agent.lines.filter((line) => line.startsWith('ended'))).toEqual([]);
  }, 60_000);
});

function payload(path: string): Uint8Array {
  const out = Buffer.alloc(4 + path.length + 40);
  out.writeUInt32LE(path.length);
  out.write(path, 4);
  return out;
}
