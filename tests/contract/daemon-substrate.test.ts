/** The daemon's substrate over a real runner and a store in memory: what a restart of Node finds, and what it doesn't. */
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BlobStore, DaemonSubstrate, RunnerConnection } from '@boxkite/local/daemon';
import type { SandboxPort } from '@boxkite/protocol';
import { SessionRegistry } from '@boxkite/sidecar/app';
import { eventually, lane, startRunner, type TestRunner } from '@boxkite/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

/** What `supervise` does, in this process. */
class Blobs implements BlobStore {
  readonly kept = new Map<string, Uint8Array>();
  put(key: string, blob: Uint8Array): Promise<void> {
    this.kept.set(key, Uint8Array.from(blob));
    return Promise.resolve();
  }
  delete(key: string): Promise<void> {
    this.kept.delete(key);
    return Promise.resolve();
  }
  list(): Promise<ReadonlyMap<string, Uint8Array>> {
    return Promise.resolve(new Map(this.kept));
  }
}

describe(`the daemon's substrate, ${lane}`, () => {
  let runner: TestRunner;
  let base = '';
  const blobs = new Blobs();
  const reports: string[] = [];
  let connection: RunnerConnection;
  let registry: SessionRegistry;
  let substrate: DaemonSubstrate;

  beforeAll(async () => {
    runner = await startRunner({ blanks: 2 });
    base = mkdtempSync(join(tmpdir(), 'boxkite-substrate-'));
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
    rmSync(base, { recursive: true, force: true });
  });
  beforeEach(start);
  afterEach(async () => {
    for (const { handle } of await substrate.list()) await substrate.destroy(handle);
    await stop();
    blobs.kept.clear();
    expect(reports.splice(0)).toEqual([]);
  });

  async function start(): Promise<void> {
    connection = await RunnerConnection.open(runner.socketPath, 5000);
    registry = new SessionRegistry();
    substrate = await DaemonSubstrate.open({
      instance: 'test',
      runner: connection,
      blobs,
      registry,
      records: join(base, 'records'),
      roots: ['host'],
      report: (what) => reports.push(what),
    });
  }
  async function stop(): Promise<void> {
    await substrate.close();
    await connection.close();
  }
  /** Another Node takes over. */
  async function restart(): Promise<void> {
    await stop();
    await start();
  }
  const port = async (handle: Parameters<DaemonSubstrate['endpoint']>[0]): Promise<SandboxPort> =>
    (await substrate.endpoint(handle)).port;
  const say = async (handle: Parameters<DaemonSubstrate['endpoint']>[0], command: string): Promise<string> => {
    const result = await (await port(handle)).execs?.run({ argv: ['sh', '-c', command] });
    return Buffer.from(result?.stdout ?? []).toString();
  };
  const sandboxes = async () => (await runner.client.list()).sandboxes.filter(({ closing }) => !closing);

  it('finds its sandboxes again, with their ids and records, and forgets those that are gone', async () => {
    const [one, two] = [randomUUID(), randomUUID()];
    const [first, second] = [await substrate.start({ id: one }), await substrate.start({ id: two, pids: 64 })];
    await say(first, 'echo here >file');
    const started = await (await port(first)).execs?.start({ argv: ['sh', '-c', 'sleep 0.5; cat file'] });
    await substrate.destroy(second);
    expect(blobs.kept.size).toBe(1);
    await restart();
    expect(await substrate.list()).toEqual([{ handle: first, id: one, state: 'ready', usage: null }]);
    const again = await port(first);
    expect(again.id).toBe(one);
    expect(again.effective.user.uid).toBe(1001);
    const chunks: Uint8Array[] = [];
    for await (const event of again.execs?.output(started?.exec_id ?? '') ?? [])
      if (event.type === 'output') chunks.push(event.data);
    expect(Buffer.concat(chunks).toString()).toBe('here\n');
    await expect(substrate.endpoint(second)).rejects.toMatchObject({ code: 'not_found' });
    await substrate.destroy(second);
  });

  it('keeps the notes of a sandbox over a restart, and none of one that is gone', async () => {
    const handles = [await substrate.start({ id: randomUUID() }), await substrate.start({ id: randomUUID() })] as const;
    for (const handle of handles) await substrate.session(handle).services.scratch.set('whose', handle);
    expect(blobs.kept.size).toBe(4);
    await restart();
    for (const handle of handles) expect(substrate.session(handle).services.scratch.get('whose')).toBe(handle);
    // Its end was under way when Node ended: its state went, its notes did not.
    const [first, second] = handles;
    const notes = new Map(blobs.kept);
    await substrate.destroy(first);
    expect(blobs.kept.size).toBe(2);
    for (const [key, blob] of notes) if (key[14] === '8') blobs.kept.set(key, blob);
    await restart();
    expect(blobs.kept.size).toBe(2);
    expect(substrate.session(second).services.scratch.get('whose')).toBe(second);
  });

  it('opens a sandbox by its own token alone, also after a restart', async () => {
    await substrate.start({ id: randomUUID() });
    await restart();
    expect(registry.isEmpty).toBe(false);
    expect(registry.find(randomBytes(32).toString('base64url'))).toBeNull();
  });

  it('shows what no blob describes as something to be ended, and ends it', async () => {
    const { sandbox } = await runner.client.openSandbox({
      memoryBytes: 1 << 28,
      workspaceBytes: 1 << 26,
      inodes: 1000,
      pids: 64,
      cpuMillis: 0,
      root: 0,
    });
    await restart();
    const [found] = await substrate.list();
    expect(found).toMatchObject({ handle: `test:${sandbox}`, state: 'stopping' });
    if (found !== undefined) {
      await expect(substrate.endpoint(found.handle)).rejects.toMatchObject({ code: 'not_found' });
      await substrate.destroy(found.handle);
    }
    expect(await sandboxes()).toEqual([]);
    expect(await substrate.list()).toEqual([]);
  });

  it('takes a blob that can not be read for none', async () => {
    const id = randomUUID();
    await substrate.start({ id });
    blobs.kept.set(id, Buffer.from('garbage that is long enough'));
    await restart();
    expect(reports.splice(0)).toEqual(['the state of a sandbox']);
    expect(await substrate.list()).toMatchObject([{ state: 'stopping' }]);
  });

  it('starts beside a sandbox that can not be opened, which loses nothing and can be opened later, or ended', async () => {
    const [one, two, three] = [randomUUID(), randomUUID(), randomUUID()];
    const well = await substrate.start({ id: one });
    const ill = await substrate.start({ id: two });
    const ended = await substrate.start({ id: three });
    for (const handle of [well, ill, ended]) expect(await say(handle, 'echo kept | tee file')).toBe('kept\n');
    const [record] = (await (await port(ill)).execs?.list()) ?? [];
    await stop();
    const broken = [two, three].map((id) => join(base, 'records', id, 'journal-0000000000'));
    for (const path of broken) {
      renameSync(path, `${path}-away`);
      mkdirSync(path);
    }
    await start();
    expect(reports.splice(0)).toEqual(['the records of a sandbox', 'the records of a sandbox']);
    expect(await say(well, 'cat file')).toBe('kept\n');
    for (const handle of [ill, ended])
      await expect(substrate.endpoint(handle)).rejects.toMatchObject({ code: 'state_unavailable' });
    expect((await substrate.list()).map(({ id, state }) => [id, state])).toEqual(
      expect.arrayContaining([
        [one, 'ready'],
        [two, 'ready'],
        [three, 'ready'],
      ]),
    );
    await substrate.destroy(ended);
    expect(existsSync(join(base, 'records', three))).toBe(false);
    expect(blobs.kept.size).toBe(2);
    await stop();
    rmSync(broken[0] ?? '', { recursive: true });
    renameSync(`${broken[0]}-away`, broken[0] ?? '');
    await start();
    expect(await say(ill, 'cat file')).toBe('kept\n');
    expect(await (await port(ill)).execs?.get(record?.exec_id ?? '')).toMatchObject({ state: 'ended' });
  });

  it('leaves nothing of a start that is aborted, at any moment', async () => {
    for (let round = 0; round < 20; round += 1) {
      const abort = new AbortController();
      const started = substrate.start({ id: randomUUID() }, abort.signal);
      setTimeout(() => abort.abort(), Math.random() * 8);
      const outcome = await started.then(
        (handle) => handle,
        (error: unknown) => error,
      );
      if (typeof outcome === 'string') await substrate.destroy(outcome as Parameters<typeof substrate.destroy>[0]);
      else expect(outcome).toMatchObject({ code: 'aborted' });
      expect(blobs.kept.size).toBe(0);
    }
    await eventually(
      async () => (await sandboxes()).length === 0,
      2000,
      () => 'sandboxes are left',
    );
    expect(await substrate.list()).toEqual([]);
  });

  it('takes many destroys for one and tells once that it is gone', async () => {
    const abort = new AbortController();
    const events: string[] = [];
    const watching = (async () => {
      for await (const event of substrate.watch(abort.signal)) events.push(event.type);
    })();
    const handle = await substrate.start({ id: randomUUID() });
    await Promise.all(Array.from({ length: 10 }, () => substrate.destroy(handle)));
    expect(await sandboxes()).toEqual([]);
    abort.abort();
    await watching;
    expect(events).toEqual(['ready', 'gone']);
  });

  it('is not destroyed before its records are, and goes on where that failed', async () => {
    const abort = new AbortController();
    const events: string[] = [];
    const watching = (async () => {
      for await (const event of substrate.watch(abort.signal)) events.push(event.type);
    })();
    const id = randomUUID();
    const handle = await substrate.start({ id });
    await say(handle, 'head -c 200000 /dev/zero');
    const records = join(base, 'records');
    renameSync(records, `${records}-away`);
    writeFileSync(records, '');
    await expect(substrate.destroy(handle)).rejects.toMatchObject({ code: 'ENOTDIR' });
    expect(await substrate.list()).toMatchObject([{ id, state: 'stopping' }]);
    await expect(substrate.destroy(handle)).rejects.toMatchObject({ code: 'ENOTDIR' });
    rmSync(records);
    renameSync(`${records}-away`, records);
    expect(existsSync(join(records, id))).toBe(true);
    await substrate.destroy(handle);
    expect(existsSync(join(records, id))).toBe(false);
    expect(await substrate.list()).toEqual([]);
    abort.abort();
    await watching;
    expect(events).toEqual(['ready', 'gone']);
  });

  it('measures what its sandboxes use when it is asked to', async () => {
    const handle = await substrate.start({ id: randomUUID() });
    const { exec_id = '' } = (await (await port(handle)).execs?.start({ argv: ['sleep', '30'] })) ?? {};
    const [listed] = await substrate.list({ usage: true });
    expect(listed?.usage?.execs).toBe(1);
    await (await port(handle)).execs?.kill(exec_id);
    expect((await substrate.list({ usage: true }))[0]?.usage?.execs).toBe(0);
  });

  it('bounds the input that waits for commands that do not read it', async () => {
    const { execs } = await port(await substrate.start({ id: randomUUID() }));
    const { exec_id = '' } = (await execs?.start({ argv: ['sleep', '60'], stdin: 'stream' })) ?? {};
    const data = Buffer.alloc(16 << 20);
    const codes: string[] = [];
    const writes = Array.from({ length: 40 }, async () => {
      await execs?.write(exec_id, data).catch((error: { readonly code: string }) => codes.push(error.code));
    });
    // Half of 512 MiB.
    await expect.poll(() => codes.length).toBeGreaterThanOrEqual(24);
    const refused = codes.length;
    expect(new Set(codes.splice(0))).toEqual(new Set(['capacity']));
    await execs?.kill(exec_id);
    await Promise.all(writes);
    // The command is gone before its end is told.
    for (const code of codes) expect(['exec_ended', 'stdin_closed']).toContain(code);
    expect(codes).toHaveLength(writes.length - refused);
  });

  it('refuses what it can not make', async () => {
    await expect(substrate.start({ id: 'no uuid', workspace: 'disk' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    await expect(substrate.start({ id: randomUUID(), rootfs: '/etc' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    await expect(substrate.start({ id: randomUUID(), rootfs: 'other' })).rejects.toThrow(/no root file system other/);
    await expect(substrate.start({ id: randomUUID(), pids: 0 })).rejects.toMatchObject({ code: 'invalid_request' });
    const handle = await substrate.start({ id: randomUUID(), rootfs: 'host' });
    await expect(substrate.stop(handle)).rejects.toMatchObject({ code: 'workspace_not_kept' });
    expect(await say(handle, 'echo goes on')).toBe('goes on\n');
  });

  it('removes records of sandboxes that nobody has', async () => {
    const stale = join(base, 'records', randomUUID());
    mkdirSync(stale, { recursive: true });
    const id = randomUUID();
    const handle = await substrate.start({ id });
    await say(handle, 'echo output');
    await restart();
    expect(existsSync(stale)).toBe(false);
    await substrate.destroy(handle);
    expect(readdirSync(join(base, 'records'))).toEqual([]);
  });
});
