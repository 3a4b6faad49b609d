/** What the SDK does over a daemon alone: sandboxes and commands that outlive whoever started them. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { boxkiteCommand, CuttingProxy, eventually, lane, startDaemon, type TestDaemon } from '@boxkite/testing';
import { Sandbox, type SandboxOptions } from 'boxkite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

let daemon: TestDaemon;
let where: SandboxOptions;

beforeAll(async () => {
  daemon = await startDaemon();
  where = { url: daemon.url };
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe(`SDK over a daemon, ${lane}`, () => {
  let sandbox: Sandbox;

  beforeEach(async () => {
    sandbox = await Sandbox.create({ ...where, label: 'of a test' });
  });
  afterEach(async () => {
    await sandbox.destroy();
  });

  it('finds a sandbox again, lists it, and tells its state', async () => {
    await sandbox.files.write('a', 'text');
    const again = await Sandbox.connect(sandbox.id, where);
    expect(await again.files.read('a')).toBe('text');
    const found: string[] = [];
    for await (const { id } of Sandbox.list(where)) found.push(id);
    expect(found).toContain(sandbox.id);
    expect(await sandbox.status()).toMatchObject({ state: 'ready', label: 'of a test', destroyed_at: null });
    const later = await sandbox.extend(600);
    expect(Date.parse(later.expires_at) - Date.now()).toBeGreaterThan(590 * 60_000);
    expect(await sandbox.usage()).toMatchObject({ execs: 0 });
    await again.destroy();
    await expect(Sandbox.connect(sandbox.id, where)).rejects.toMatchObject({ code: 'sandbox_not_ready' });
    for await (const { id } of Sandbox.list(where)) expect(id).not.toBe(sandbox.id);
    await expect(Sandbox.connect('nobody', where)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('runs a command in the background, whose output and record are found by anybody', async () => {
    const started = await sandbox.execs.start('echo one; sleep 0.3; echo two; exit 4');
    expect(started).toMatchObject({ state: 'running', record: null });
    const other = await Sandbox.connect(sandbox.id, where);
    let text = '';
    for await (const event of other.execs.output(started.exec_id, { stdout: 1 })) {
      if (event.type === 'output') text += event.text;
      if (event.type === 'ended') expect(event.result).toMatchObject({ exitCode: 4, stdout_bytes: 8 });
    }
    expect(text).toBe('ne\ntwo\n');
    expect(await other.execs.get(started.exec_id)).toMatchObject({ state: 'ended', record: { exit_code: 4 } });
    expect((await other.execs.list()).map(({ exec_id }) => exec_id)).toEqual([started.exec_id]);
    const parts: string[] = [];
    for await (const event of other.execs.output(started.exec_id, { only: 'stderr', follow: false }))
      parts.push(event.type);
    expect(parts).toEqual(['ended']);
  });

  it('attaches to a command, writes to it, leaves it, and comes back', async () => {
    const { exec_id } = await sandbox.execs.start('while read -r line; do echo "got $line"; done', { stdin: 'stream' });
    const first = sandbox.attach(exec_id, { stdin: 'stream' });
    await first.write('a\n');
    for await (const event of first) if (event.type === 'output') break;
    await expect(sandbox.attach(exec_id, { stdout: 6, timeout_ms: 100 }).result).rejects.toMatchObject({
      code: 'timeout',
    });
    expect(await sandbox.execs.get(exec_id)).toMatchObject({ state: 'running' });
    const second = sandbox.attach(exec_id, { stdin: Readable.from(['b\n', Buffer.from('c\n')]) });
    let text = '';
    for await (const event of second) if (event.type === 'output') text += event.text;
    expect(text).toBe('got a\ngot b\ngot c\n');
    expect(await second.result).toMatchObject({ ok: true });
  });

  it('gives a background command a terminal with its size, keys and signals', async () => {
    const { exec_id } = await sandbox.execs.start(
      'trap "echo int; exit 5" INT; stty size; read -r x; stty size; while :; do sleep 0.1; done',
      {
        stdin: 'stream',
        tty: { columns: 80, rows: 24 },
      },
    );
    const stream = sandbox.attach(exec_id, { tty: { columns: 100, rows: 30 } });
    let text = '';
    let stage = 0;
    for await (const event of stream) {
      if (event.type !== 'output') continue;
      text += event.text;
      if (stage === 0 && /\d+ \d+\r\n/.test(text)) {
        stage = 1;
        await stream.resize(70, 20);
        await stream.write('go\n');
      }
      if (stage === 1 && text.includes('20 70')) {
        stage = 2;
        await stream.write('\u0003');
      }
    }
    expect(text).toContain('int');
    expect(await stream.result).toMatchObject({ exitCode: 5 });
  });

  it('kills a background command', async () => {
    const { exec_id } = await sandbox.execs.start('sleep 60');
    const stream = sandbox.attach(exec_id);
    await sandbox.execs.kill(exec_id);
    expect(await stream.result).toMatchObject({ end: 'killed' });
    await expect(sandbox.execs.get('nobody')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('masks the values of secret_env', async () => {
    const result = await sandbox.exec('echo "$TOKEN" | tee file; cat file | base64', {
      secret_env: { TOKEN: 's3cret-value-1' },
    });
    expect(result.stdout).not.toContain('s3cret');
    expect(result.stdout).toContain('TOKEN');
    expect(await sandbox.files.read('file')).toBe('s3cret-value-1\n');
  });

  it('goes on with a stream through a proxy that cuts it, byte for byte', async () => {
    await using proxy = await CuttingProxy.start(daemon.socket);
    const provider = daemon.provider({ socket: proxy.socket });
    const through = await Sandbox.connect(sandbox.id, { provider });
    proxy.cutEvery(700_001, 5);
    let at = 0;
    for await (const event of through.stream('seq 1 700000')) {
      expect(event.type).not.toBe('gap');
      if (event.type !== 'output') continue;
      expect(event.offset).toBe(at);
      at += event.data.length;
    }
    expect(at).toBe(4_788_895);
    expect(proxy.cuts).toBe(5);
    await provider.close();
  });

  it('waits for a Node that was killed, and for its commands', async () => {
    const background = await sandbox.execs.start('for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done');
    const attached = sandbox.attach(background.exec_id);
    const streamed = sandbox.stream('for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done');
    const texts = Promise.all(
      [attached, streamed].map(async (stream) => {
        let text = '';
        for await (const event of stream) if (event.type === 'output') text += event.text;
        return text;
      }),
    );
    await streamed.started;
    await daemon.killNode();
    expect((await sandbox.exec('echo alive')).stdout).toBe('alive\n');
    await sandbox.files.write('after', 'x');
    expect(await texts).toEqual(['1\n2\n3\n4\n5\n6\n', '1\n2\n3\n4\n5\n6\n']);
  });

  it('keeps a disk workspace over stop and start', async () => {
    const creating = Sandbox.create({ ...where, workspace: 'disk', workspace_mb: 64 });
    // A loop file needs root, and quota of projects a file system that has it.
    if (lane !== 'root') return expect(creating).rejects.toMatchObject({ code: 'isolation_unavailable' });
    const kept = await creating;
    await kept.files.write('a', 'kept');
    expect(await kept.stop()).toMatchObject({ state: 'stopped', workspace: { kind: 'disk', kept: true } });
    await expect(kept.exec('true')).rejects.toMatchObject({ code: 'sandbox_not_ready' });
    await kept.start();
    expect((await kept.exec('cat a')).stdout).toBe('kept');
    await kept.stop();
    await using again = await Sandbox.start(kept.id, where);
    expect(await again.files.read('a')).toBe('kept');
    await expect(sandbox.stop()).rejects.toMatchObject({ code: 'workspace_not_kept' });
  });

  it('is found by the environment alone, and keeps no program from ending', async () => {
    const script = join(import.meta.dirname, 'support', 'by-environment.ts');
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, [script], { env: { BOXKITE_URL: daemon.url }, timeout: 30_000 });
    const found = JSON.parse(stdout) as { id: string };
    expect(found).toEqual({ id: found.id, stdout: '42\n', state: 'ready' });
    const left = await Sandbox.connect(found.id, where);
    expect(await left.status()).toMatchObject({ label: 'by the environment' });
    await left.destroy();
    const wrong = { BOXKITE_URL: 'unix:///nonexistent/boxkite.sock' };
    await expect(run(process.execPath, [script], { env: wrong, timeout: 30_000 })).rejects.toMatchObject({
      stderr: expect.stringContaining('daemon_unreachable') as string,
    });
  });

  it('ends a command whose program was aborted, and leaves no sandbox of a create that was', async () => {
    const stop = new AbortController();
    const states = async () => (await sandbox.execs.list()).map(({ state }) => state);
    const aborted = expect(sandbox.exec('sleep 4444', { signal: stop.signal })).rejects.toMatchObject({
      code: 'aborted',
    });
    await eventually(
      async () => (await states()).includes('running'),
      20_000,
      () => 'it does not run',
    );
    stop.abort();
    await aborted;
    expect(await states()).toEqual(['ended']);
    const before = await count();
    const creates = Array.from({ length: 4 }, (_unused, index) =>
      Sandbox.create({ ...where, timeout_ms: 1 + index * 15 }).then(
        (made) => made.destroy(),
        (error: unknown) => expect(error).toMatchObject({ code: 'timeout' }),
      ),
    );
    await Promise.all(creates);
    await eventually(
      async () => (await count()) === before,
      10_000,
      () => 'one is left',
    );
  });
});

async function count(): Promise<number> {
  let found = 0;
  for await (const each of Sandbox.list(where)) found += each.state === 'destroyed' ? 0 : 1;
  return found;
}

describe.each(['private', 'daemon'] as const)(`files of the SDK, ${lane}, %s`, (way) => {
  let sandbox: Sandbox;
  let top: string;

  beforeAll(async () => {
    sandbox = await Sandbox.create(way === 'private' ? { daemon: false } : where);
    top = mkdtempSync(join(tmpdir(), 'boxkite-tree-'));
  });
  afterAll(async () => {
    await sandbox.destroy();
    rmSync(top, { recursive: true, force: true });
  });

  it('takes a directory up and brings it down as it was', async () => {
    const source = join(top, 'source');
    mkdirSync(join(source, 'sub/empty'), { recursive: true });
    writeFileSync(join(source, 'run.sh'), '#!/bin/sh\necho ran\n', { mode: 0o755 });
    writeFileSync(join(source, 'sub/ä ☃'), 'x'.repeat(1_000_000));
    writeFileSync(join(source, 'left-out'), '');
    symlinkSync('../run.sh', join(source, 'sub/link'));
    await sandbox.files.uploadDirectory(source, 'up/here', { filter: ({ path }) => path !== 'left-out' });
    expect((await sandbox.exec('up/here/sub/link; find up | sort | wc -l')).stdout).toBe('ran\n7\n');
    const target = join(top, 'target');
    const report = await sandbox.files.downloadDirectory('up/here', target);
    expect(report).toEqual({ files: 2, directories: 2, links: 1, bytes: 1_000_019, skipped: [], omitted: 0, cut: 0 });
    expect(readFileSync(join(target, 'sub/ä ☃'), 'utf8').length).toBe(1_000_000);
    expect(statSync(join(target, 'run.sh')).mode & 0o777).toBe(0o755);
    expect(existsSync(join(target, 'sub/empty'))).toBe(true);
  });

  it('says what of a directory has not come', async () => {
    await sandbox.exec('mkdir -p part; cd part; echo x > file; mkfifo pipe; touch shut; chmod 0 shut');
    const report = await sandbox.files.downloadDirectory('part', join(top, 'part'));
    expect(report).toMatchObject({ files: 1, omitted: 2, cut: 0 });
  });

  it('refuses what leads out, and leaves nothing', async () => {
    await sandbox.exec('mkdir -p bad; echo x > bad/file; ln -sfn /etc/passwd bad/link');
    const target = join(top, 'bad');
    await expect(sandbox.files.downloadDirectory('bad', target)).rejects.toMatchObject({ code: 'archive_refused' });
    expect(existsSync(target)).toBe(false);
    expect(await sandbox.files.downloadDirectory('bad', target, { links: 'skip' })).toMatchObject({
      skipped: ['link'],
    });
    await expect(sandbox.files.downloadDirectory('none', join(top, 'none'))).rejects.toMatchObject({
      code: 'file_not_found',
    });
  });

  it('takes streams of the web and of Node, and a copy at the start', async () => {
    await sandbox.files.write('web', new Blob(['from ', 'the web']).stream());
    await sandbox.files.write('node', Readable.from(['from ', Buffer.from('Node')]));
    expect(await sandbox.files.read('web')).toBe('from the web');
    expect(await sandbox.files.read('node')).toBe('from Node');
    const copy = join(top, 'copy');
    mkdirSync(copy);
    writeFileSync(join(copy, 'file'), 'copied');
    await using other = await Sandbox.create({ ...(way === 'private' ? { daemon: false } : where), copy });
    expect((await other.exec('cat file')).stdout).toBe('copied');
  });

  it('reads ranges, the end of a file, and behind it', async () => {
    await sandbox.files.write('range', '0123456789');
    const text = async (offset: number, length?: number): Promise<string> => {
      let found = '';
      for await (const part of sandbox.files.readStream('range', {
        offset,
        ...(length === undefined ? {} : { length }),
      }))
        found += new TextDecoder().decode(part);
      return found;
    };
    expect(await text(3)).toBe('3456789');
    expect(await text(3, 2)).toBe('34');
    expect(await text(8, 100)).toBe('89');
    expect(await text(10)).toBe('');
    expect(await text(1000)).toBe('');
    expect(await text(2, 0)).toBe('');
    await sandbox.files.write('nothing', '');
    expect(await sandbox.files.read('nothing')).toBe('');
  });

  it('lists thousands of files', async () => {
    await sandbox.exec('mkdir many; cd many; seq 1 2500 | xargs touch');
    expect((await sandbox.files.list('many')).length).toBe(2500);
  });
});

// Root's daemon has one place on the machine, where another one may run.
if (lane !== 'root')
  describe(`a daemon of this user, ${lane}`, () => {
    let base: string;
    let env: Record<string, string | undefined>;

    beforeEach(() => {
      base = mkdtempSync(join(tmpdir(), 'bk-'));
      const [home, runtime] = [join(base, 'home'), join(base, 'run')];
      for (const path of [home, runtime]) mkdirSync(path, { mode: 0o700 });
      const { BOXKITE_URL: _url, BOXKITE_API_KEY: _key, XDG_STATE_HOME: _state, ...rest } = process.env;
      env = { ...rest, HOME: home, XDG_RUNTIME_DIR: runtime };
    });
    afterEach(() => {
      rmSync(base, { recursive: true, force: true });
    });

    async function look(): Promise<unknown> {
      const script = join(import.meta.dirname, 'support', 'found-daemon.ts');
      const { stdout } = await promisify(execFile)(process.execPath, [script], { env, timeout: 30_000 });
      return JSON.parse(stdout);
    }

    it('is found without a word of configuration while it runs, and a private runner after it', async () => {
      expect(await look()).toEqual({ url: null, states: [null, null] });
      const [program, ...words] = boxkiteCommand();
      const own = spawn(program, [...words, 'serve'], { env, stdio: 'ignore', detached: true });
      const ended = once(own, 'exit');
      try {
        let found: unknown;
        await eventually(
          async () => {
            found = await look();
            return JSON.stringify(found).includes('unix:');
          },
          30_000,
          () => `found ${JSON.stringify(found)}`,
        );
        expect(found).toEqual({
          url: `unix://${base}/run/boxkite/daemon/node/boxkite.sock`,
          states: ['ready', null],
        });
      } finally {
        own.kill('SIGTERM');
        await ended;
      }
      expect(await look()).toEqual({ url: null, states: [null, null] });
    });
  });
