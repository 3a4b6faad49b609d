import { createHash, randomBytes } from 'node:crypto';
import { createLocalProvider } from '@boxkite/local';
import type { SandboxPort, SandboxProvider } from '@boxkite/protocol';
import { lane, nativeProgram, sh, sleep } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

describe(`files, ${lane}`, () => {
  let provider: SandboxProvider;
  let sandbox: SandboxPort;

  beforeAll(async () => {
    provider = createLocalProvider({
      binaries: { runner: nativeProgram('boxkite-runner'), agent: nativeProgram('boxkite-agent') },
    });
    sandbox = await provider.create({ workspace_mb: 96 });
  });
  afterAll(async () => {
    await provider?.close();
  });

  const read = async (
    path: string,
    range?: { readonly offset?: number; readonly length?: number },
  ): Promise<Buffer> => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of sandbox.files.read(path, range)) chunks.push(chunk);
    return Buffer.concat(chunks);
  };
  const list = async (path: string): Promise<readonly string[]> => {
    const names: string[] = [];
    for await (const entry of sandbox.files.list(path)) names.push(`${entry.type} ${entry.name}`);
    return names.toSorted();
  };

  it('gives back what was written, to calls and to commands', async () => {
    const bytes = randomBytes(100_000);
    await sandbox.files.write('/workspace/a/b/c.bin', bytes);
    expect((await read('/workspace/a/b/c.bin')).equals(bytes)).toBe(true);
    expect((await read('a/b/c.bin', { offset: 99_990 })).equals(bytes.subarray(99_990))).toBe(true);
    expect((await read('/workspace/a/b/c.bin', { offset: 10, length: 20 })).equals(bytes.subarray(10, 30))).toBe(true);
    expect((await read('/workspace/a/b/c.bin', { offset: 200_000 })).length).toBe(0);
    const { stdout } = await sh(sandbox, 'sha256sum a/b/c.bin; stat -c "%u %g %a" a/b/c.bin');
    expect(stdout).toContain(createHash('sha256').update(bytes).digest('hex'));
    expect(stdout).toMatch(/^1001 1001 644$/m);
    expect((await sh(sandbox, 'stat -c "%u %g" a a/b; touch a/b/beside')).stdout).toBe('1001 1001\n1001 1001\n');
    await sh(sandbox, 'umask 077; mkdir -p own/deep; echo from-command > own/deep/closed');
    expect((await read('own/deep/closed')).toString()).toBe('from-command\n');
    await sandbox.files.write('own/deep/closed', Buffer.from('over'));
    await sandbox.files.write('own/deep/in/it', Buffer.from('nested'));
    expect((await sh(sandbox, 'cat own/deep/closed own/deep/in/it')).stdout).toBe('overnested');
  });

  it('streams 64 MiB each way, with flat windows', async () => {
    const chunk = randomBytes(1 << 20);
    const hash = createHash('sha256');
    async function* produce(): AsyncGenerator<Uint8Array> {
      for (let index = 0; index < 64; index += 1) {
        hash.update(chunk);
        yield chunk;
        await sleep(0);
      }
    }
    await sandbox.files.write('/workspace/large', produce());
    const back = createHash('sha256');
    for await (const part of sandbox.files.read('/workspace/large')) back.update(part);
    expect(back.digest('hex')).toBe(hash.digest('hex'));
    await sandbox.files.remove('/workspace/large');
  });

  it('replaces a file at once: a reader sees the old or the new one', async () => {
    await sandbox.files.write('/workspace/atomic', Buffer.alloc(50_000, 'a'));
    let running = true;
    const reads = (async () => {
      let count = 0;
      while (running) {
        const text = (await read('/workspace/atomic')).toString();
        expect(text.length).toBe(50_000);
        expect(new Set(text).size).toBe(1);
        count += 1;
      }
      return count;
    })();
    for (let index = 0; index < 100; index += 1)
      await sandbox.files.write('/workspace/atomic', Buffer.alloc(50_000, index % 2 === 0 ? 'b' : 'c'));
    running = false;
    expect(await reads).toBeGreaterThan(5);
    expect((await sh(sandbox, 'ls -A /workspace | grep -c tmp')).stdout).toBe('0\n');
  });

  it('sets modes, says what things are', async () => {
    await sandbox.files.write('/workspace/tool', Buffer.from('#!/bin/sh\necho ran\n'), { mode: 0o755 });
    expect((await sh(sandbox, './tool; ln -s tool link; mkfifo pipe')).stdout).toBe('ran\n');
    expect(await sandbox.files.stat('/workspace/tool')).toMatchObject({
      type: 'file',
      size: 19,
      mode: 0o755,
      name: 'tool',
      path: '/workspace/tool',
    });
    expect(Math.abs((await sandbox.files.stat('/workspace/tool')).modified_ms - Date.now())).toBeLessThan(60_000);
    expect(await sandbox.files.stat('/workspace/a')).toMatchObject({ type: 'directory' });
    const entries = await list('/workspace');
    expect(entries).toContain('symlink link');
    expect(entries).toContain('other pipe');
    await sandbox.files
      .write('/workspace/setuid', Buffer.from('x'), { mode: 0o4755 })
      .catch((error: unknown) => expect(error).toMatchObject({ code: 'invalid_request' }));
    expect((await sh(sandbox, 'find /workspace -perm /6000')).stdout).toBe('');
  });

  it('lists 5,000 entries, once each', async () => {
    await sh(sandbox, 'mkdir many; cd many; seq -f f%04g 1 5000 | xargs touch');
    const names = await list('/workspace/many');
    expect(names.length).toBe(5000);
    expect(new Set(names).size).toBe(5000);
    await sandbox.files.remove('/workspace/many');
    expect((await sh(sandbox, 'ls -d many')).record.exit_code).not.toBe(0);
  });

  it('makes, moves and removes', async () => {
    await sandbox.files.mkdir('/workspace/d1/d2/d3');
    await sandbox.files.write('/workspace/d1/file', Buffer.from('moved'));
    await sandbox.files.move('/workspace/d1/file', '/workspace/d1/d2/d3/file');
    expect((await read('/workspace/d1/d2/d3/file')).toString()).toBe('moved');
    // What is wrong is named by its own path.
    await sandbox.files.mkdir('/workspace/d1/other');
    await expect(sandbox.files.move('/workspace/d1/d2/d3/file', '/workspace/d1/other')).rejects.toMatchObject({
      code: 'is_directory',
      details: { path: '/workspace/d1/other' },
    });
    await sandbox.files.remove('/workspace/d1');
    await expect(sandbox.files.stat('/workspace/d1')).rejects.toMatchObject({ code: 'file_not_found' });
    await expect(sandbox.files.remove('/workspace/d1')).rejects.toMatchObject({ code: 'file_not_found' });
  });

  it('names what is wrong', async () => {
    await sandbox.files.write('/workspace/plain', Buffer.from('x'));
    const cases: readonly (readonly [string, () => Promise<unknown>, string])[] = [
      ['missing', () => read('/workspace/none'), 'file_not_found'],
      ['directory', () => read('/workspace/a'), 'is_directory'],
      ['fifo', () => read('/workspace/pipe'), 'not_a_file'],
      ['file as directory', () => read('/workspace/plain/x'), 'not_a_directory'],
      ['list of a file', () => list('/workspace/plain'), 'not_a_directory'],
      ['outside', () => read('/etc/passwd'), 'outside_roots'],
      ['outside by dots', () => read('../etc/passwd'), 'outside_roots'],
      ['uploads', () => sandbox.files.write('/mnt/user-data/uploads/x', Buffer.from('x')), 'read_only'],
      ['skills', () => sandbox.files.write('/mnt/skills/x', Buffer.from('x')), 'read_only'],
      ['long name', () => sandbox.files.write(`/workspace/${'n'.repeat(300)}`, Buffer.from('x')), 'name_too_long'],
      [
        'no parents',
        () => sandbox.files.write('/workspace/no/parent', Buffer.from('x'), { parents: false }),
        'file_not_found',
      ],
      ['write to a directory', () => sandbox.files.write('/workspace/a', Buffer.from('x')), 'is_directory'],
      ['NUL', () => read('/workspace/a\0b'), 'invalid_request'],
      ['a root itself', () => sandbox.files.remove('/workspace'), 'read_only'],
    ];
    for (const [what, call, code] of cases) await expect.soft(call(), what).rejects.toMatchObject({ code });
  });

  it('cancels a write and leaves nothing of it', async () => {
    const controller = new AbortController();
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (let index = 0; ; index += 1) {
        if (index === 5) controller.abort();
        yield Buffer.alloc(100_000);
        await sleep(2);
      }
    }
    await expect(sandbox.files.write('/workspace/cancelled', endless(), {}, controller.signal)).rejects.toMatchObject({
      code: 'aborted',
    });
    await sleep(100);
    expect((await sh(sandbox, 'ls -A /workspace')).stdout).not.toMatch(/cancelled|\.tmp|partial/);
    expect((await read('/workspace/plain')).toString()).toBe('x');
  });

  it('says that the space is used up, keeps the old file, and works again after', async () => {
    await sandbox.files.write('/workspace/kept', Buffer.from('old'));
    async function* much(): AsyncGenerator<Uint8Array> {
      for (let index = 0; index < 128; index += 1) yield Buffer.alloc(1 << 20);
    }
    await expect(sandbox.files.write('/workspace/kept', much())).rejects.toMatchObject({ code: 'no_space' });
    expect((await read('/workspace/kept')).toString()).toBe('old');
    await sandbox.files.write('/workspace/after', Buffer.alloc(10 << 20));
    await sandbox.files.remove('/workspace/after');
  });

  it('packs a tree and unpacks it the same', async () => {
    await sh(
      sandbox,
      'mkdir -p tree/empty tree/sub; echo one > tree/one; echo two > tree/sub/two; chmod 600 tree/one; ln -s one tree/link; chmod 755 tree/sub/two',
    );
    const packed: Uint8Array[] = [];
    for await (const chunk of sandbox.files.pack('/workspace/tree')) packed.push(chunk);
    async function* again(): AsyncGenerator<Uint8Array> {
      yield* packed;
    }
    await sandbox.files.mkdir('/workspace/copy');
    await sandbox.files.unpack('/workspace/copy', again());
    const { stdout } = await sh(
      sandbox,
      'for d in tree copy; do (cd $d; find . -mindepth 1 -printf "%P %y %m %l\\n" | sort; cat one sub/two) | sha256sum; done',
    );
    const [tree, copy] = stdout.trim().split('\n');
    expect(copy).toBe(tree);
  });

  it('serves many calls at once on one connection', async () => {
    await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        sandbox.files.write(`/workspace/parallel/${index}`, Buffer.from(String(index))),
      ),
    );
    const back = await Promise.all(Array.from({ length: 100 }, (_, index) => read(`/workspace/parallel/${index}`)));
    expect(back.map(String)).toEqual(Array.from({ length: 100 }, (_, index) => String(index)));
  });

  it('keeps names of any bytes that are text, and files between commands', async () => {
    for (const name of ['with space', 'ünïcödé', '-dash', 'quote"\'', 'new\nline', '.hidden', '*']) {
      await sandbox.files.write(`/workspace/names/${name}`, Buffer.from(name));
      expect((await read(`/workspace/names/${name}`)).toString()).toBe(name);
    }
    expect((await list('/workspace/names')).length).toBe(7);
  });

  it('is gone with the sandbox, and refused after it', async () => {
    const other = await provider.create({});
    await other.files.write('/workspace/x', Buffer.from('x'));
    await other.destroy();
    await expect(other.files.write('/workspace/y', Buffer.from('y'))).rejects.toHaveProperty(
      'code',
      expect.stringMatching(/^(not_found|closing|runner_lost)$/),
    );
  });

  it('removes a tree that is deep, closed and wide', async () => {
    await sh(
      sandbox,
      `/usr/bin/python3 -I -S - <<'END'
import os
os.mkdir('/workspace/hard'); os.chdir('/workspace/hard')
for _ in range(3000):
    os.mkdir('d' * 50); os.chdir('d' * 50)
os.chdir('/workspace/hard')
os.mkdir('closed'); open('closed/file', 'w').close(); os.chmod('closed', 0)
END`,
    );
    await sandbox.files.remove('/workspace/hard');
    expect((await sh(sandbox, 'ls -d /workspace/hard')).record.exit_code).not.toBe(0);
  });
});
