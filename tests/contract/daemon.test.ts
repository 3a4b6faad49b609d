/** The daemon as an operator starts and ends it, and every way in which one of its processes can end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  boxkite,
  boxkiteCommand,
  eventually,
  groupsOf,
  idLockDirectories,
  lane,
  launchDaemon,
  makeDataDirectory,
  makeTlsPair,
  placesOf,
  processes,
  processesOf,
  removeDaemon,
  sleep,
  startDaemon,
  type TestDaemon,
  within,
} from '@boxkite/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const isRoot = lane === 'root';
const sandbox = z.object({ id: z.string(), state: z.string(), state_reason: z.string().nullable() });
const collected = z.object({ exit_code: z.number(), stdout: z.string(), exec_id: z.string(), effective: z.unknown() });
const started = z.object({ exec_id: z.string() });
const errorBody = z.object({ error: z.object({ code: z.string(), message: z.string(), hint: z.string() }) });

async function create(daemon: TestDaemon, body: object = {}): Promise<string> {
  const answer = await daemon.call('POST', '/v1/sandboxes', { body });
  expect(answer.status, answer.body.toString()).toBe(201);
  return sandbox.parse(answer.json()).id;
}

async function run(daemon: TestDaemon, id: string, command: string): Promise<z.infer<typeof collected>> {
  const answer = await daemon.call('POST', `/v1/sandboxes/${id}/exec`, { body: { command } });
  expect(answer.status, answer.body.toString()).toBe(200);
  return collected.parse(answer.json());
}

async function stateOf(daemon: TestDaemon, id: string): Promise<z.infer<typeof sandbox>> {
  const answer = await daemon.call('GET', `/v1/sandboxes/${id}`);
  expect(answer.status, answer.body.toString()).toBe(200);
  return sandbox.parse(answer.json());
}

/** Processes below the daemon, itself included. */
function family(daemon: TestDaemon): readonly number[] {
  return [daemon.pid, ...processesOf(daemon.pid, '/nonexistent').map(({ pid }) => pid)];
}

function living(pids: readonly number[]): readonly string[] {
  const wanted = new Set(pids);
  return processes()
    .filter(({ pid, state }) => wanted.has(pid) && state !== 'Z')
    .map(({ pid, name }) => `${pid} ${name}`);
}

/** Files of this user's id locks that nobody holds, and that say of no workspace that it has their ids. */
function abandonedIdLocks(): readonly string[] {
  const held = readFileSync('/proc/locks', 'utf8');
  const paths = idLockDirectories().flatMap((directory) =>
    existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : [],
  );
  return paths.filter((path) => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    return found?.size === 0 && !held.includes(`:${found.ino} 0 EOF`);
  });
}

function hostMounts(marker: string): readonly string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(marker));
}

describe(`a daemon that serves, ${lane}`, () => {
  let daemon: TestDaemon;
  beforeAll(async () => {
    daemon = await startDaemon();
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  it('makes a sandbox, runs a command in it and keeps its files', async () => {
    const id = await create(daemon, { label: 'first' });
    expect((await run(daemon, id, 'echo "$PWD"; echo data >file')).stdout).toBe('/workspace\n');
    const path = `/v1/sandboxes/${id}/files/content?path=/workspace`;
    const put = await daemon.call('PUT', `${path}/put`, { body: Buffer.from('from outside\0') });
    expect(put.status, put.body.toString()).toBeLessThan(300);
    expect((await run(daemon, id, 'cat file; tr -d "\\0" <put')).stdout).toBe('data\nfrom outside');
    expect((await daemon.call('GET', `${path}/file`)).body.toString()).toBe('data\n');
    expect((await daemon.call('DELETE', `/v1/sandboxes/${id}`)).status).toBe(204);
    expect((await daemon.call('GET', `/v1/sandboxes/${id}/execs`)).status).toBeGreaterThanOrEqual(400);
  });

  it('has a key that its user alone can read, and refuses who has none', async () => {
    expect(statSync(daemon.places.key).mode & 0o777).toBe(0o600);
    for (const key of [null, 'bxk_live_x', `${daemon.key().slice(0, -1)}_`]) {
      const answer = await daemon.call('GET', '/v1/sandboxes', { key });
      expect(answer.status).toBe(401);
      expect(errorBody.parse(answer.json()).error.hint).not.toBe('');
    }
  });

  it('serves the sandboxes’ own API to nobody without a token', async () => {
    const at = (path: string) => daemon.call('GET', path, { key: null, socket: daemon.places.sidecarSocket });
    expect((await at('/health')).json()).toEqual({ status: 'healthy' });
    expect(statSync(daemon.places.sidecarSocket).mode & 0o777).toBe(0o600);
    await create(daemon);
    const answer = await at('/execs');
    expect(answer.status).toBe(401);
    errorBody.parse(answer.json());
    const withKey = await daemon.call('GET', '/execs', { socket: daemon.places.sidecarSocket });
    expect(withKey.status).toBe(401);
  });

  it('says what it is', async () => {
    const { status, stdout } = await boxkite(['status', '--data', daemon.data, '--json']);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ pid: daemon.pid, answers: true, socket: daemon.socket, listen: [] });
    const people = await boxkite(['status', '--data', daemon.data]);
    expect(people.stdout).toContain(`process ${daemon.pid}`);
    expect(people.stdout).toContain(daemon.socket);
  });

  it('is the only one of its data directory', async () => {
    const second = await boxkite(['serve', '--data', daemon.data]);
    expect(second.status).toBe(2);
    expect(second.stderr).toContain(`process ${daemon.pid} (already_running)`);
    expect((await daemon.call('GET', '/health', { key: null })).status).toBe(200);
  });

  it('leaves private runners alone', async () => {
    const command = ['run', '--', 'sh', '-c', 'sleep 0.2; echo done'];
    const both = await Promise.all([boxkite(command), boxkite(command)]);
    expect(both.map(({ status, stdout }) => [status, stdout])).toEqual([
      [0, 'done\n'],
      [0, 'done\n'],
    ]);
  });

  it('runs Node without any privilege', () => {
    const status = readFileSync(`/proc/${daemon.nodePid()}/status`, 'utf8');
    const field = (name: string): string => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '';
    const uid = isRoot ? statSync(daemon.places.nodeData).uid : process.getuid?.();
    expect(field('Uid').split(/\s+/)).toEqual(Array(4).fill(String(uid)));
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) expect(field(set)).toBe('0000000000000000');
    expect(field('NoNewPrivs')).toBe('1');
  });

  if (isRoot)
    it('runs Node from files that root alone can write, as nobody of this machine, and not dumpable', () => {
      const uid = statSync(daemon.places.nodeData).uid;
      expect(uid).toBeGreaterThanOrEqual(0x7ff0_0000);
      expect(readFileSync('/etc/passwd', 'utf8')).not.toContain(`:${uid}:`);
      const [version = ''] = readdirSync(daemon.places.library);
      expect(version).toMatch(/^[0-9a-f]{64}$/);
      const installed = join(daemon.places.library, version);
      for (const entry of readdirSync(installed, { recursive: true, withFileTypes: true })) {
        const found = lstatSync(join(entry.parentPath, entry.name));
        expect([entry.name, found.uid, found.gid, found.mode & 0o022]).toEqual([entry.name, 0, 0, 0]);
      }
      const node = daemon.nodePid();
      const words = readFileSync(`/proc/${node}/cmdline`, 'utf8').split('\0');
      expect(
        words
          .filter((word) => word.startsWith('/'))
          .every((word) => word.startsWith(installed) || word.startsWith(daemon.places.runtime)),
      ).toBe(true);
      expect(statSync(join(installed, 'bin', 'node')).mode & 0o777).toBe(0o711);
      // The kernel gives what is not dumpable to root.
      expect(statSync(`/proc/${node}/environ`).uid).toBe(0);
      expect(statSync(daemon.places.nodeData).mode & 0o777).toBe(0o700);
      expect(statSync(daemon.places.state).uid).toBe(0);
      expect(statSync(daemon.places.state).mode & 0o777).toBe(0o700);
    });
});

describe(`kill -9 of Node, ${lane}`, () => {
  it('ends no command, loses no output, and the sandbox goes on', { timeout: within(60_000) }, async () => {
    await using daemon = await startDaemon();
    const id = await create(daemon);
    const key = daemon.key();
    const command = 'i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i+1)); sleep 0.005; done';
    const answer = await daemon.call('POST', `/v1/sandboxes/${id}/execs`, { body: { command } });
    expect(answer.status, answer.body.toString()).toBe(201);
    const { exec_id } = started.parse(answer.json());
    for (let round = 0; round < 3; round += 1) {
      await sleep(Math.random() * 300);
      await daemon.killNode();
      // Connections wait for the next Node: no call fails.
      expect((await daemon.call('GET', '/health', { key: null })).status).toBe(200);
      expect((await run(daemon, id, 'echo still here')).stdout).toBe('still here\n');
    }
    expect(daemon.key()).toBe(key);
    const output = await daemon.call('GET', `/v1/sandboxes/${id}/execs/${exec_id}/output?stream=stdout&follow=true`);
    expect(output.body.toString()).toBe(Array.from({ length: 400 }, (_, index) => `line ${index}\n`).join(''));
    const { status } = await daemon.call('GET', `/v1/sandboxes/${id}/execs/${exec_id}`);
    expect(status).toBe(200);
    expect((await stateOf(daemon, id)).state).toBe('ready');
  });

  it('at any moment of a create leaves no sandbox that nobody knows', { timeout: within(120_000) }, async () => {
    await using daemon = await startDaemon();
    for (let round = 0; round < 10; round += 1) {
      const made = Array.from({ length: 4 }, () =>
        daemon.call('POST', '/v1/sandboxes', { body: {} }).then(
          (answer) => sandbox.parse(answer.json()).id,
          () => null,
        ),
      );
      await sleep(Math.random() * 20);
      await daemon.killNode();
      const ids = (await Promise.all(made)).filter((id) => id !== null);
      // What was answered works.
      for (const id of ids) expect((await run(daemon, id, 'echo works')).stdout).toBe('works\n');
      const listed = z.array(sandbox).parse((await daemon.call('GET', '/v1/sandboxes?active_only=true')).json());
      for (const { id } of listed) expect((await daemon.call('DELETE', `/v1/sandboxes/${id}`)).status).toBe(204);
    }
    const groups = groupsOf(daemon.places.runner);
    const left = groups
      .filter((group) => existsSync(group))
      .flatMap((group) => readdirSync(group).filter((name) => /^s\d/.test(name)));
    // Those that are made ahead, and none of a killed create.
    expect(new Set(left).size).toBeLessThanOrEqual(8);
  });
});

describe(`kill -9 of the runner, ${lane}`, () => {
  it('ends everything at once; the next start removes what is left and says what was lost', {
    timeout: within(60_000),
  }, async () => {
    const data = makeDataDirectory();
    try {
      await using first = await startDaemon({ data });
      const id = await create(first);
      await run(first, id, 'echo lost >file; (sleep 300 &) ; true');
      const answer = await first.call('POST', `/v1/sandboxes/${id}/execs`, { body: { command: 'sleep 300' } });
      expect(answer.status).toBe(201);
      const members = family(first);
      expect(members.length).toBeGreaterThan(4);
      const groups = groupsOf(first.places.runner);
      await first.killRunner();
      await eventually(
        () => living(members).length === 0,
        2000,
        () => living(members).join('\n'),
      );
      if (isRoot) expect(abandonedIdLocks()).not.toEqual([]);
      await using second = await startDaemon({ data });
      expect(groups.filter((group) => existsSync(group))).toEqual([]);
      await eventually(
        () => abandonedIdLocks().length === 0,
        2000,
        () => abandonedIdLocks().join('\n'),
      );
      expect(readdirSync(second.places.runtime).filter((name) => name.startsWith('run-'))).toEqual([
        `run-${second.pid}`,
      ]);
      expect(await stateOf(second, id)).toMatchObject({ state: 'failed', state_reason: 'runner_lost' });
      const exec = await second.call('POST', `/v1/sandboxes/${id}/exec`, { body: { command: 'true' } });
      expect(exec.status).toBeGreaterThanOrEqual(400);
      const next = await create(second);
      expect((await run(second, next, 'ls; echo new')).stdout).toBe('new\n');
      expect((await second.stop()).code).toBe(0);
      expect(hostMounts(data)).toEqual([]);
      expect(readdirSync(join(data, 'node', 'records'))).toEqual([]);
    } finally {
      removeDaemon(placesOf(data));
    }
  });

  if (isRoot)
    it('keeps a disk workspace with every acknowledged write', { timeout: within(60_000) }, async () => {
      const data = makeDataDirectory();
      try {
        await using first = await startDaemon({ data });
        const id = await create(first, { workspace: 'disk', workspace_mb: 64 });
        await run(first, id, 'echo kept >file');
        const put = await first.call('PUT', `/v1/sandboxes/${id}/files/content?path=/workspace/put`, {
          body: Buffer.from('put'),
        });
        expect(put.status, put.body.toString()).toBeLessThan(300);
        await first.killRunner();
        await using second = await startDaemon({ data });
        expect(await stateOf(second, id)).toMatchObject({ state: 'failed', state_reason: 'runner_lost' });
        const start = await second.call('POST', `/v1/sandboxes/${id}/start`, { body: {} });
        expect(start.status, start.body.toString()).toBe(200);
        expect((await run(second, id, 'cat file put; ps -e | wc -l')).stdout).toMatch(/^kept\nput/);
        const stop = await second.call('POST', `/v1/sandboxes/${id}/stop`, { body: {} });
        expect(stop.status, stop.body.toString()).toBe(200);
        expect((await stateOf(second, id)).state).toBe('stopped');
      } finally {
        removeDaemon(placesOf(data));
      }
    });
});

describe(`the end of a daemon, ${lane}`, () => {
  it.each<readonly [string, (daemon: TestDaemon) => void]>([
    ['SIGTERM', ({ pid }) => process.kill(pid, 'SIGTERM')],
    ['Ctrl-C at its terminal', ({ pid }) => process.kill(-pid, 'SIGINT')],
  ])(
    'by %s is orderly, and leaves data alone',
    async (_how, ask) => {
      const data = makeDataDirectory();
      try {
        await using daemon = await startDaemon({ data });
        const id = await create(daemon);
        await daemon.call('POST', `/v1/sandboxes/${id}/execs`, { body: { command: 'sleep 300' } });
        const members = family(daemon);
        const groups = groupsOf(daemon.places.runner);
        ask(daemon);
        expect(await daemon.whenEnded()).toEqual({ code: 0, signal: null });
        expect(living(members)).toEqual([]);
        expect(groups.filter((group) => existsSync(group))).toEqual([]);
        expect(
          [daemon.socket, daemon.places.sidecarSocket, daemon.places.runner].filter((path) => existsSync(path)),
        ).toEqual([]);
        expect(hostMounts(data)).toEqual([]);
        await using again = await startDaemon({ data });
        expect(await stateOf(again, id)).toMatchObject({ state: 'destroyed', state_reason: 'daemon_stopped' });
      } finally {
        removeDaemon(placesOf(data));
      }
    },
    60_000,
  );

  it('is what `boxkite stop` waits for, of a daemon in the background', { timeout: within(60_000) }, async () => {
    const data = makeDataDirectory();
    try {
      const serve = await boxkite(['serve', '--data', data, '--detach']);
      expect(serve.stderr).toMatch(/serves as process \d+ and logs to .*daemon\.log/);
      expect(serve.status).toBe(0);
      const pid = Number(/process (\d+)/.exec(serve.stderr)?.[1]);
      expect(living([pid])).toHaveLength(1);
      const stop = await boxkite(['stop', '--data', data, '--json']);
      expect(stop.status, stop.stderr).toBe(0);
      expect(JSON.parse(stop.stdout)).toEqual({ pid, kept: [], lost: [], listed: true });
      expect(living([pid])).toEqual([]);
      expect(readdirSync(placesOf(data).runtime).filter((name) => name.startsWith('run-'))).toEqual([]);
      expect(readdirSync(placesOf(data).node)).toEqual([]);
      const nothing = await boxkite(['stop', '--data', data]);
      expect(nothing.status).toBe(1);
      expect(nothing.stderr).toContain('(daemon_unreachable)');
      expect((await boxkite(['status', '--data', data])).status).toBe(1);
    } finally {
      removeDaemon(placesOf(data));
    }
  });

  it('is found, named and ended where its data was removed under it', { timeout: within(60_000) }, async () => {
    const data = makeDataDirectory();
    try {
      await using daemon = await startDaemon({ data });
      rmSync(data, { recursive: true });
      const second = await boxkite(['serve', '--data', data, '--detach']);
      expect(second.status).toBe(2);
      expect(second.stderr).toContain(`process ${daemon.pid}`);
      expect(second.stderr).toContain(`boxkite stop --data ${data}`);
      const status = await boxkite(['status', '--data', data]);
      expect(status.status).toBe(0);
      expect(status.stdout).toContain('which was removed');
      expect(await boxkite(['stop', '--data', data])).toMatchObject({ status: 0 });
      expect(await daemon.whenEnded()).toEqual({ code: 0, signal: null });
      await using again = await startDaemon({ data });
      await create(again);
    } finally {
      removeDaemon(placesOf(data));
    }
  });

  it('is that of its starter too, as long as it does not serve', { timeout: within(60_000) }, async () => {
    const data = makeDataDirectory();
    try {
      const [program, ...words] = boxkiteCommand();
      const starter = spawn(program, [...words, 'serve', '--data', data, '--detach'], { stdio: 'ignore' });
      const children = (): number[] => processes().flatMap(({ pid, parent }) => (parent === starter.pid ? pid : []));
      await eventually(
        () => children().length > 0,
        10_000,
        () => 'no daemon was started',
      );
      const started = children();
      starter.kill('SIGINT');
      expect(await once(starter, 'exit')).toEqual([null, 'SIGINT']);
      expect(living(started)).toEqual([]);
      expect((await boxkite(['status', '--data', data])).status).toBe(1);
    } finally {
      removeDaemon(placesOf(data));
    }
  });
});

describe(`a daemon that can't be, ${lane}`, () => {
  const scratch: string[] = [];
  afterEach(() => {
    for (const path of scratch.splice(0)) rmSync(path, { recursive: true, force: true });
  });
  function directory(): string {
    const path = mkdtempSync(join(tmpdir(), 'boxkite-refused-'));
    chmodSync(path, 0o755);
    scratch.push(path);
    return path;
  }

  it('names the port that is in use', async () => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      const { status, stderr } = await boxkite(['serve', '--data', join(directory(), 'data'), '--listen', address]);
      expect(status).toBe(2);
      expect(stderr).toContain(`${address} is in use by another program (address_in_use)`);
    } finally {
      server.close();
    }
  });

  it('listens beyond this machine with TLS only', async () => {
    const { status, stderr } = await boxkite(['serve', '--data', join(directory(), 'data'), '--listen', '0.0.0.0:1']);
    expect(status).toBe(2);
    expect(stderr).toContain('can be reached from other machines');
    expect(stderr).toContain('--tls-cert');
  });

  it.each([
    ['a file in the way', (base: string) => writeFileSync(join(base, 'data'), ''), /not a directory|can't be used/],
    [
      'a data directory of others',
      (base: string) => {
        mkdirSync(join(base, 'data'));
        chmodSync(base, 0o777);
      },
      /others may change/,
    ],
  ])('refuses %s', async (_what, prepare, words) => {
    const base = directory();
    prepare(base);
    const { status, stderr } = await boxkite(['serve', '--data', join(base, 'data')]);
    expect(stderr).toMatch(words);
    expect(stderr).toContain('(data_unusable)');
    expect(status).toBe(2);
  });

  if (!isRoot)
    it('refuses a data directory that it may not write', async () => {
      const base = directory();
      chmodSync(base, 0o555);
      const { status, stderr } = await boxkite(['serve', '--data', join(base, 'data')]);
      expect(stderr).toMatch(/you may not write there \(data_unusable\)/);
      expect(status).toBe(2);
      chmodSync(base, 0o755);
    });

  if (isRoot)
    it('refuses a data directory that the service can not reach', async () => {
      const base = directory();
      chmodSync(base, 0o700);
      const { status, stderr } = await boxkite(['serve', '--data', join(base, 'data')]);
      expect(stderr).toContain(`chmod o+x ${base}`);
      expect(status).toBe(2);
    });

  it('ends with 78 for a database that is corrupt, which is kept', { timeout: within(60_000) }, async () => {
    const data = makeDataDirectory();
    const places = placesOf(data);
    try {
      await using first = await startDaemon({ data });
      await create(first);
      await first.stop();
      const name = join(places.nodeData, 'boxkite.db');
      const broken = Buffer.alloc(8192, 'no database');
      for (const side of ['-wal', '-shm']) rmSync(`${name}${side}`, { force: true });
      writeFileSync(name, broken);
      await using second = launchDaemon({ data });
      expect(await second.whenEnded()).toEqual({ code: 78, signal: null });
      const said = second.log.join('');
      expect(said).toMatch(/^boxkite: the database .* is corrupt; it is kept as .* \(data_unusable\)\nhint: /m);
      const kept = readdirSync(places.nodeData).filter((entry) => entry.includes('corrupt'));
      expect(kept.map((entry) => readFileSync(join(places.nodeData, entry)).equals(broken))).toEqual([true]);
      expect(living(family(second))).toEqual([]);
      await using third = await startDaemon({ data });
      await create(third);
    } finally {
      removeDaemon(places);
    }
  });

  it('is one of two that start at once', { timeout: within(60_000) }, async () => {
    const data = makeDataDirectory();
    const both = [launchDaemon({ data }), launchDaemon({ data })];
    try {
      await eventually(
        () => both.some(({ ended }) => ended !== undefined),
        30_000,
        () => both.map(({ log }) => log.join('')).join('\n'),
      );
      const [loser, winner] = both[0]?.ended === undefined ? [both[1], both[0]] : both;
      if (winner === undefined) throw new Error('nobody won');
      await winner.serving();
      expect(loser?.ended?.code).not.toBe(0);
      expect(loser?.log.join('')).toMatch(/already_running|in use by another daemon/);
      expect((await run(winner, await create(winner), 'echo one')).stdout).toBe('one\n');
      expect((await winner.stop()).code).toBe(0);
    } finally {
      await Promise.all(both.map((daemon) => daemon.stop()));
      removeDaemon(placesOf(data));
    }
  });
});

describe(`TCP, ${lane}`, () => {
  async function freePort(): Promise<number> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    return port;
  }

  it('speaks TLS with a pair that nobody but Node can read', { timeout: within(60_000) }, async () => {
    const base = mkdtempSync(join(tmpdir(), 'boxkite-pair-'));
    const { certificate, key } = makeTlsPair(base, 'IP:127.0.0.1');
    const port = await freePort();
    try {
      await using daemon = await startDaemon({
        args: ['--listen', `127.0.0.1:${port}`, '--tls-cert', certificate, '--tls-key', key],
      });
      const record = statSync(join(daemon.places.runtime, `run-${daemon.pid}`, 'daemon.json'));
      expect([record.uid, record.mode & 0o777]).toEqual([process.getuid?.(), 0o640]);
      const copy = join(daemon.places.runtime, `run-${daemon.pid}`, 'tls.key');
      expect(statSync(copy).mode & 0o777).toBe(0o400);
      expect(statSync(copy).uid).toBe(statSync(daemon.places.nodeData).uid);
      const get = (): Promise<number | undefined> =>
        new Promise((resolve, reject) => {
          const options = { host: '127.0.0.1', port, path: '/health', ca: readFileSync(certificate), agent: false };
          request(options, (answer) => {
            answer.resume();
            resolve(answer.statusCode);
          })
            .once('error', reject)
            .end();
        });
      expect(await get()).toBe(200);
      await daemon.killNode();
      expect(await get()).toBe(200);
      const secrets = [daemon.key(), readFileSync(key, 'utf8').split('\n')[1] ?? ''];
      const shown = family(daemon).flatMap((pid) =>
        ['cmdline', 'environ'].filter((file) => {
          try {
            const text = readFileSync(`/proc/${pid}/${file}`, 'utf8');
            return secrets.some((secret) => text.includes(secret));
          } catch {
            return false;
          }
        }),
      );
      expect(shown).toEqual([]);
      expect((await boxkite(['stop', '--data', daemon.data])).status).toBe(0);
      expect(existsSync(copy)).toBe(false);
    } finally {
      rmSync(base, { recursive: true, force: true });
    }
  });
});
