/** The daemon below Node: who starts whom, as whom, what outlives whom, and that nothing outlives the runner. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { RunnerClient } from '@boxkite/runner-client';
import {
  collect,
  connectTo,
  eventually,
  lane,
  RUNNER_PATH,
  runnerArguments,
  sleep,
  TYPE,
  within,
} from '@boxkite/testing';
import { describe, expect, it } from 'vitest';
import {
  alive,
  call,
  type Daemon,
  left,
  makeHouse,
  removeHouse,
  spawnDaemon,
  startDaemon,
} from './support/supervised.ts';

const PUT = 1;
const DELETE = 2;
const LIST = 3;
const DONE = '80';
const BLOB = '81';
const REFUSED = 'ff';

const SMALL = { memoryBytes: 1 << 28, workspaceBytes: 1 << 24, inodes: 1000, pids: 64, cpuMillis: 0, root: 0 };

const key = (number: number): Buffer => Buffer.alloc(16, number);

function field(status: string, name: string): string {
  return new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(status)?.[1] ?? '';
}

/** A connection to the runner itself, as its own user. */
function connectOwn(daemon: Daemon): Promise<Socket> {
  return connectTo(join(daemon.house.place.directory, 'runner.sock'));
}

/** Kills the runner or supervise while a command runs, and waits until nothing of the daemon does. */
async function killOneOf(daemon: Daemon, victim: 'runner' | 'supervise'): Promise<void> {
  const client = new RunnerClient(await connectOwn(daemon), { environment: {}, connect: () => connectOwn(daemon) });
  const { sandbox } = await client.openSandbox(SMALL);
  const running = client.exec(sandbox, { argv: ['/bin/sh', '-c', '(setsid sleep 60 &); sleep 60'] });
  const collected = running.then(collect).catch(() => undefined);
  await running;
  const members = daemon.members();
  const { parent } = await daemon.describe();
  expect(members).toContain(parent);
  process.kill(victim === 'runner' ? daemon.pid : parent, 'SIGKILL');
  await daemon.exited;
  await eventually(
    () => alive(members).length === 0,
    1000,
    () => alive(members).join('\n'),
  );
  expect([daemon.child.exitCode, daemon.child.signalCode]).toEqual(victim === 'runner' ? [null, 'SIGKILL'] : [1, null]);
  await collected;
  await client.close();
  if (victim === 'supervise') await heard(daemon, 'supervise was killed by signal 9');
}

/** Waits for what a daemon says, which may be read later than its end. */
async function heard(daemon: Daemon, words: string): Promise<void> {
  await eventually(
    () => daemon.complaints.includes(words),
    5000,
    () => daemon.complaints,
  );
}

/** Starts of Node after the first, once there are as many; the pauses before them in milliseconds. */
async function pauses(daemon: Daemon, count: number): Promise<readonly number[]> {
  await eventually(
    () => daemon.starts().length > count,
    20_000,
    () => daemon.complaints,
  );
  const starts = daemon.starts();
  return starts.slice(1, count + 1).map((start, index) => start - (starts[index] ?? 0));
}

/** The end of one process is the end of others, which may be gone by now. */
function terminate(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

describe(`supervise, ${lane}`, () => {
  it('starts Node with its own descriptors, environment and arguments, and nothing of the caller', async () => {
    await using daemon = await startDaemon({ listen: ['--tcp', '127.0.0.1:0'] });
    const node = await daemon.describe();
    expect(node.environment).toEqual({
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      LANG: 'C.UTF-8',
      HOME: daemon.house.home,
      NODE_ENV: 'production',
      BOXKITE_SUPERVISED: '1',
      BOXKITE_INSTANCE: 'c0ffee',
      BOXKITE_LISTENERS: '2',
    });
    expect(node.arguments).toEqual(['an argument']);
    expect(node.cwd).toBe(daemon.house.home);
    expect(node.umask).toBe(0o077);
    const [input, , , ...others] = node.descriptors;
    expect(input).toBe('/dev/null');
    for (const link of others.slice(0, 3)) expect(link).toMatch(/^socket:/);
    // The control socket, two listening ones, and the connection of this call.
    expect(others.filter((link) => link.startsWith('socket:'))).toHaveLength(4);
    expect(others.filter((link) => link.startsWith(daemon.house.place.base))).toEqual([]);
    expect(statSync(daemon.socket).mode & 0o777).toBe(0o600);

    const file = join(daemon.house.home, 'addresses');
    await eventually(
      () => existsSync(file) && readFileSync(file, 'utf8').includes('127.0.0.1'),
      5000,
      () => daemon.complaints,
    );
    const port = Number(/"port":(\d+)/.exec(readFileSync(file, 'utf8'))?.[1]);
    expect(((await call({ port }, { do: 'describe' })) as { pid: number }).pid).toBe(node.pid);
  });

  it('has given up every privilege, and so has Node', async () => {
    await using daemon = await startDaemon();
    const node = await daemon.describe();
    const supervise = readFileSync(`/proc/${node.parent}/status`, 'utf8');
    expect(field(supervise, 'Name')).toBe('supervise');
    expect(readFileSync(`/proc/${node.parent}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]).toBe(String(daemon.pid));
    const id = daemon.house.serviceId ?? process.getuid?.();
    const group = daemon.house.serviceId ?? process.getgid?.();
    for (const status of [supervise, node.status]) {
      expect(field(status, 'Uid').split(/\s+/)).toEqual(Array(4).fill(String(id)));
      expect(field(status, 'Gid').split(/\s+/)).toEqual(Array(4).fill(String(group)));
      expect(field(status, 'NoNewPrivs')).toBe('1');
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) expect(Number(`0x${field(status, set)}`)).toBe(0);
    }
    expect(node.limits).toMatch(/^Max core file size\s+1\s+1\s/m);
    // Not dumpable: what is in /proc of it is root's.
    expect(statSync(`/proc/${node.parent}/environ`).uid).toBe(0);
    if (lane === 'root') {
      for (const status of [supervise, node.status]) {
        expect(field(status, 'Groups')).toBe('');
        expect(Number(`0x${field(status, 'CapBnd')}`)).toBe(0);
      }
      expect(id).toBeGreaterThanOrEqual(0x7ff0_0000);
      expect(statSync(`/proc/${node.pid}/environ`).uid).toBe(0);
    } else {
      // Outside of the runner's user namespace.
      expect(readFileSync(`/proc/${node.pid}/uid_map`, 'utf8')).toBe(readFileSync('/proc/self/uid_map', 'utf8'));
    }
  });

  it('lets Node use the runner by the client socket, and nobody else', async () => {
    await using daemon = await startDaemon();
    const ask = (): Promise<unknown> =>
      call(daemon.socket, { do: 'runner', path: daemon.clientSocket, type: String(TYPE.probe) });
    expect(await ask()).toBe('answered 8a');
    const entry = statSync(daemon.clientSocket);
    expect(entry.mode & 0o777).toBe(0o600);
    expect(entry.uid).toBe(daemon.house.serviceId ?? process.getuid?.());
    if (lane === 'root') {
      const attempt = `require('node:net').connect(${JSON.stringify(daemon.clientSocket)})
        .on('connect', () => process.exit(9)).on('error', (error) => process.exit(error.code === 'EACCES' ? 7 : 8))`;
      for (const uid of [65_534, (daemon.house.serviceId ?? 0) + 1]) {
        expect(spawnSync(daemon.house.node, ['-e', attempt], { uid, gid: uid, cwd: '/' }).status).toBe(7);
      }
      const own = `${daemon.house.place.directory}/runner.sock`;
      expect(await call(daemon.socket, { do: 'runner', path: own, type: String(TYPE.probe) })).toMatch(/EACCES/);
    }
  });

  it('keeps blobs over kill -9 of Node, and its answers to what it refuses', async () => {
    await using daemon = await startDaemon();
    const large = Buffer.alloc(1 << 20, 'x');
    expect(await daemon.ask(PUT, Buffer.concat([key(2), large]))).toEqual([[DONE, Buffer.alloc(0)]]);
    expect(await daemon.ask(PUT, Buffer.concat([key(1), Buffer.from('first')]))).toEqual([[DONE, Buffer.alloc(0)]]);
    expect(await daemon.ask(PUT, Buffer.concat([key(1), Buffer.from('second')]))).toEqual([[DONE, Buffer.alloc(0)]]);
    expect((await daemon.ask(PUT, Buffer.concat([key(3), large, Buffer.from('x')])))[0]?.[0]).toBe(REFUSED);
    expect((await daemon.ask(9))[0]?.[0]).toBe(REFUSED);
    const kept = [
      [BLOB, Buffer.concat([key(1), Buffer.from('second')])],
      [BLOB, Buffer.concat([key(2), large])],
      [DONE, Buffer.alloc(0)],
    ];
    for (let round = 0; round < 3; round += 1) {
      const { pid } = await daemon.describe();
      process.kill(pid, 'SIGKILL');
      expect(await daemon.ask(LIST)).toEqual(kept);
      expect((await daemon.describe()).pid).not.toBe(pid);
    }
    await daemon.ask(DELETE, key(2));
    await daemon.ask(DELETE, key(2));
    process.kill((await daemon.describe()).pid, 'SIGKILL');
    expect(await daemon.ask(LIST)).toEqual([kept[0], kept[2]]);
    await heard(daemon, 'node was killed by signal 9; it is started again now');
  });

  it('serves what connects while no Node is there, once there is one', async () => {
    await using daemon = await startDaemon();
    for (let round = 0; round < 5; round += 1) {
      const { pid } = await daemon.describe();
      process.kill(pid, 'SIGKILL');
      await eventually(
        () => alive([pid]).length === 0,
        1000,
        () => 'Node is alive',
      );
      const answers = await Promise.all(Array.from({ length: 20 }, () => daemon.describe()));
      expect(new Set(answers.map((answer) => answer.pid)).size).toBe(1);
      expect(answers[0]?.pid).not.toBe(pid);
    }
    expect(daemon.starts()).toHaveLength(6);
  });

  it('waits longer each time when Node never serves', async () => {
    const house = makeHouse();
    const status = join(house.home, 'exit-status');
    writeFileSync(status, '3', { mode: 0o644 });
    await using daemon = spawnDaemon({ house });
    const found = await pauses(daemon, 5);
    for (const [index, least] of [0, 100, 200, 400, 800].entries()) {
      expect(found[index]).toBeGreaterThanOrEqual(least);
      expect(found[index]).toBeLessThan(least + within(2000));
    }
    await heard(daemon, 'node ended with status 3; it is started again in 0.1 s');
  });

  it('waits longer each time when Node serves and dies, and not at all once it has served for long', {
    timeout: within(60_000),
  }, async () => {
    await using daemon = await startDaemon();
    const kill = async (): Promise<void> => {
      process.kill((await daemon.describe()).pid, 'SIGKILL');
      await daemon.describe();
    };
    for (let death = 0; death < 4; death += 1) await kill();
    const told = (): readonly string[] =>
      daemon.complaints.split('\n').filter((line) => line.includes('started again'));
    const line = 'boxkite-runner supervise: node was killed by signal 9; it is started again';
    const row = ['now', 'in 0.1 s', 'in 0.2 s', 'in 0.4 s'].map((when) => `${line} ${when}`);
    await heard(daemon, `${line} in 0.4 s\n`);
    expect(told()).toEqual(row);
    const found = await pauses(daemon, 4);
    for (const [index, least] of [0, 100, 200, 400].entries()) expect(found[index]).toBeGreaterThanOrEqual(least);
    await sleep(10_500);
    await kill();
    await eventually(
      () => told().length > row.length,
      5000,
      () => daemon.complaints,
    );
    expect(told()).toEqual([...row, `${line} now`]);
  });

  it('ends with 78 when Node does, and starts it no more', async () => {
    await using daemon = await startDaemon();
    await expect(call(daemon.socket, { do: 'exit', status: '78' })).rejects.toThrow();
    expect(await daemon.end()).toBe(78);
    expect(daemon.starts()).toHaveLength(1);
    await heard(daemon, "its configuration or data can't be used");
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('ends all in order by %s, and nothing is left', async (signal) => {
    await using daemon = await startDaemon();
    const members = daemon.members();
    expect(members.length).toBeGreaterThanOrEqual(3);
    const { pid } = await daemon.describe();
    daemon.child.kill(signal);
    expect(await daemon.end()).toBe(0);
    expect(alive(members)).toEqual([]);
    expect(readFileSync(join(daemon.house.home, 'ended'), 'utf8')).toBe(String(pid));
    for (const path of [daemon.socket, daemon.clientSocket, daemon.house.place.directory])
      expect(existsSync(path)).toBe(false);
    expect(left(daemon.house)).toEqual([]);
  });

  it('ends in order by a terminal, which signals the whole group at once, and ignores what its caller ignores', async () => {
    await using first = await startDaemon({ leadsGroup: true });
    const client = new RunnerClient(await connectOwn(first), { environment: {}, connect: () => connectOwn(first) });
    await client.openSandbox(SMALL);
    process.kill(-first.pid, 'SIGINT');
    expect(await first.end()).toBe(0);
    expect(existsSync(join(first.house.home, 'ended'))).toBe(true);
    expect(first.complaints).toBe('');
    await client.close();

    await using second = await startDaemon({ ignoresHangup: true });
    second.child.kill('SIGHUP');
    await sleep(300);
    await second.describe();
    expect(second.child.signalCode).toBeNull();
  });

  it('ends in order when every process of it is asked at once, as a service manager does', async () => {
    for (let round = 0; round < 5; round += 1) {
      await using daemon = await startDaemon();
      const client = new RunnerClient(await connectOwn(daemon), { environment: {}, connect: () => connectOwn(daemon) });
      await client.openSandbox(SMALL);
      const all = [daemon.pid, ...daemon.members()];
      for (const pid of round % 2 === 0 ? all : all.toReversed()) terminate(pid);
      expect(await daemon.end()).toBe(0);
      expect(existsSync(join(daemon.house.home, 'ended'))).toBe(true);
      // Node may have ended before supervise was asked to end, which is told and changes nothing.
      const told = daemon.complaints
        .split('\n')
        .filter((line) => !/^(boxkite-runner supervise: node ended.*)?$/.test(line));
      expect(told).toEqual([]);
      await client.close();
    }
  });

  it('ends in order when supervise is asked to, and at once by a second signal', async () => {
    await using first = await startDaemon();
    process.kill((await first.describe()).parent, 'SIGTERM');
    expect(await first.end()).toBe(0);

    const house = makeHouse();
    writeFileSync(join(house.home, 'stubborn'), '');
    await using second = await startDaemon({ house });
    const members = second.members();
    second.child.kill('SIGTERM');
    await sleep(300);
    expect(second.child.exitCode).toBeNull();
    second.child.kill('SIGTERM');
    const asked = performance.now();
    expect(await second.end()).toBe(1);
    expect(performance.now() - asked).toBeLessThan(3000);
    await eventually(
      () => alive(members).length === 0,
      1000,
      () => alive(members).join('\n'),
    );
  });

  it('leaves nothing when the runner or supervise is killed, and what is left in files is taken over', async () => {
    const house = makeHouse();
    for (const victim of ['runner', 'supervise', 'runner', 'supervise', 'runner'] as const) {
      const daemon = await startDaemon({ house });
      try {
        await killOneOf(daemon, victim);
      } finally {
        daemon.child.kill('SIGKILL');
      }
    }
    await using last = await startDaemon({ house });
    last.child.kill('SIGTERM');
    expect(await last.end()).toBe(0);
    expect(left(house)).toEqual([]);
  });

  it('names an address that is taken and exits with 2', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    try {
      await using daemon = spawnDaemon({ listen: ['--tcp', `127.0.0.1:${port}`] });
      expect(await daemon.end()).toBe(2);
      await heard(daemon, "can't listen there");
      expect(daemon.complaints).toMatch(
        new RegExp(`127\\.0\\.0\\.1:${port}: can't listen there: Address (already )?in use`),
      );
      expect(daemon.starts()).toEqual([]);
    } finally {
      server.close();
    }
  });

  it('refuses a second daemon on the same state, and the first goes on', async () => {
    await using first = await startDaemon();
    const { house } = first;
    const others = join(house.place.base, 'others');
    mkdirSync(others, { mode: 0o700 });
    const second = spawnDaemon({ house: { ...house, place: { ...house.place, directory: others }, clients: others } });
    await second.exited;
    await heard(second, '(errno 16)');
    expect(second.child.exitCode).toBe(1);
    expect(second.complaints).toBe(
      `boxkite-runner: state: in use by another daemon: ${house.state}, process ${first.pid} (errno 16)\n`,
    );
    rmSync(others, { recursive: true });
    await first.describe();
    expect(await call(first.socket, { do: 'runner', path: first.clientSocket, type: String(TYPE.probe) })).toBe(
      'answered 8a',
    );
  });

  it('refuses what would leave a privilege, and a command line that is wrong', () => {
    const house = makeHouse();
    try {
      const run = (args: readonly string[]): { status: number | null; stderr: string } =>
        spawnSync(house.place.runner, args, { encoding: 'utf8', env: { PATH: RUNNER_PATH }, cwd: '/' });
      const supervise = ['--socket', join(house.home, 's'), '--instance', '0', '--home', house.home];
      const words = ['supervise', ...supervise, '--', house.node, house.script];
      if (lane === 'root') {
        const refused = run(words);
        expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining('must not be root')]);
      }
      const bad = run(['supervise', '--nonsense', '1']);
      expect([bad.status, bad.stderr]).toEqual([2, expect.stringContaining('--nonsense')]);
      const base = [...runnerArguments(house.place.directory, house.place.agent, {}), '--state', house.state];
      const half = run([...base, '--client-socket', join(house.clients, 'c')]);
      expect([half.status, half.stderr]).toEqual([2, expect.stringContaining('belong together')]);
      for (const uid of lane === 'root' ? [undefined, 0, 1000, 65_532, 0x7000_0001] : [0x7ff0_0001]) {
        const given = uid === undefined ? [] : ['--service-uid', String(uid)];
        const daemon = run([...base, '--client-socket', join(house.clients, 'c'), ...given, '--', ...supervise]);
        expect([daemon.status, daemon.stderr]).toEqual([1, expect.stringMatching(/service-uid|service id/)]);
      }
    } finally {
      removeHouse(house);
    }
  });

  const asRoot = lane === 'root' ? it : () => undefined;
  asRoot('gives two daemons two ids, and no daemon the id of another', async () => {
    await using first = await startDaemon();
    const id = first.house.serviceId ?? 0;
    for (let round = 0; round < 20; round += 1) {
      expect(Number(execFileSync(first.house.place.runner, ['service-id'], { encoding: 'utf8' }))).not.toBe(id);
    }
    const house = makeHouse();
    chownSync(house.home, id, id);
    await using second = spawnDaemon({ house: { ...house, serviceId: id } });
    await second.exited;
    await heard(second, 'service id: another daemon has it');
    await first.describe();
  });
});
