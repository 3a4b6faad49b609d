/** kill -9 at 50 random moments of everything that can be killed: what must end has ended, and nothing is left or lost. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  collect,
  commitPayload,
  eventually,
  frame,
  frames,
  groupsOf,
  lane,
  leftovers,
  processes,
  processesOf,
  sh,
  sleep,
  slowness,
  startRunner,
  type TestRunner,
  TYPE,
  u64,
  within,
} from '@boxkite/testing';
import { describe, expect, it } from 'vitest';

/** Where a round takes longer there are fewer: the fast lanes have as many as races need. */
const ROUNDS = Math.ceil(50 / slowness);
const support = (name: string): string => fileURLToPath(new URL(`./support/${name}`, import.meta.url));

/** Processes below one, itself included. */
function family(root: number): readonly number[] {
  return [root, ...processesOf(root, '/nonexistent').map((entry) => entry.pid)];
}

function alive(pids: readonly number[]): readonly string[] {
  const wanted = new Set(pids);
  return processes()
    .filter((entry) => wanted.has(entry.pid) && entry.state !== 'Z')
    .map((entry) => `${entry.pid} ${entry.name} ${entry.state}`);
}

/** Processes of this machine that have `marker` in their environment. */
function marked(marker: string): readonly string[] {
  return processes()
    .filter((entry) => {
      try {
        return readFileSync(`/proc/${entry.pid}/environ`, 'latin1').includes(marker);
      } catch {
        // It has gone, or belongs to somebody else, and then it is none of ours.
        return false;
      }
    })
    .map((entry) => `${entry.pid} ${entry.name}`);
}

/** Directory of the private runner below `pid`, from its command line. */
function runnerBelow(pid: number): { readonly pid: number; readonly directory: string } | undefined {
  for (const child of processesOf(pid, '/nonexistent')) {
    if (child.parent !== pid) continue;
    try {
      const args = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8').split('\0');
      const directory = args[args.indexOf('--dir') + 1];
      if (args.includes('--dir') && directory !== undefined) return { pid: child.pid, directory };
    } catch {
      // It ended between the two looks.
    }
  }
  return undefined;
}

interface BusyOwner {
  readonly owner: ChildProcess;
  /** What its processes have in their environment. */
  readonly marker: string;
  readonly complaints: readonly string[];
  readonly exited: Promise<unknown>;
}

/** One that is busy with its runner, for a random while. */
async function startOwner(index: number): Promise<BusyOwner> {
  const marker = `boxkite-owner-${process.pid}-${index}`;
  const args = ['--disable-warning=ExperimentalWarning', support('busy-owner.ts'), marker];
  const owner = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const complaints: string[] = [];
  owner.stderr.on('data', (chunk) => complaints.push(String(chunk)));
  const exited = once(owner, 'exit');
  await Promise.race([once(owner.stdout, 'data'), exited]);
  expect(owner.exitCode, complaints.join('')).toBeNull();
  await sleep(Math.random() * 150);
  return { owner, marker, complaints, exited };
}

describe(`kill -9, ${lane}`, () => {
  it('of the process that owns a private runner: everything has ended within a second', {
    timeout: within(300_000),
  }, async () => {
    let busyRounds = 0;
    const round = async ({ owner, marker, complaints, exited }: BusyOwner): Promise<void> => {
      const pid = owner.pid ?? 0;
      const runner = runnerBelow(pid);
      const members = family(pid);
      const groups = runner === undefined ? [] : groupsOf(runner.directory);
      if (members.length > 2) busyRounds += 1;
      owner.kill('SIGKILL');
      await exited;
      await eventually(
        () => alive(members).length === 0 && marked(marker).length === 0,
        1000,
        () => JSON.stringify([alive(members), marked(marker)]),
      );
      // On an emulated processor Node crashes now and then (SIGSEGV), a kill like ours before which its runner was not seen.
      const crashed = slowness > 1 && owner.signalCode !== null && owner.signalCode !== 'SIGKILL';
      if (!crashed)
        expect(runner, `${complaints.join('')} ended by ${owner.signalCode ?? owner.exitCode}`).toBeDefined();
      if (runner !== undefined) {
        await eventually(
          () => leftovers(runner.directory, groups).length === 0,
          1000,
          () => leftovers(runner.directory, groups).join('\n'),
        );
        expect(readdirSync(join(runner.directory, '..'))).not.toContain(basename(runner.directory));
      }
    };
    // Five are busy beside each other, and none has to share its second with the end of another one.
    for (let index = 0; index < ROUNDS; index += 5) {
      const owners = await Promise.all(Array.from({ length: 5 }, (_, offset) => startOwner(index + offset)));
      try {
        for (const owner of owners) await round(owner);
      } finally {
        for (const { owner } of owners) owner.kill('SIGKILL');
      }
    }
    expect(busyRounds).toBeGreaterThan(ROUNDS / 2);
  });

  it('of a client at the socket: no record is lost', { timeout: within(300_000) }, async () => {
    await using runner = await startRunner();
    await using sandbox = await runner.create();
    const program = 'import sys\nfor i in range(30000): sys.stdout.write("%015d\\n" % i)\nsys.exit(7)';
    let found = 0;
    const round = async (): Promise<void> => {
      const client = spawn(
        process.execPath,
        [
          '--disable-warning=ExperimentalWarning',
          support('reading-client.ts'),
          runner.socketPath,
          String(sandbox.number),
          program,
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      const exited = once(client, 'exit');
      await Promise.race([once(client.stdout, 'data'), exited]);
      expect(client.exitCode).toBeNull();
      await sleep(Math.random() * 120);
      client.kill('SIGKILL');
      await exited;
    };
    for (let index = 0; index < ROUNDS; index += 5) {
      await Promise.all(Array.from({ length: 5 }, round));
      await eventually(
        async () => (await runner.client.list()).execs.every((entry) => !entry.attached),
        2000,
        () => 'a dead client is still attached',
      );
      for (const entry of (await runner.client.list()).execs) {
        found += 1;
        await readToEnd(runner, BigInt(entry.exec_id));
      }
    }
    expect(found).toBeGreaterThan(ROUNDS / 2);
    await eventually(
      async () => (await runner.client.list()).execs.length === 0,
      2000,
      () => 'records are left',
    );
    expect((await sh(sandbox, 'echo works')).stdout).toBe('works\n');
  });

  it('of the owner while a maker hangs: the runner ends all the same, and so does the maker', {
    timeout: within(20_000),
  }, async () => {
    await using runner = await startRunner({ blanks: 0 });
    const [maker = 0, ...others] = family(runner.pid).slice(1);
    expect(others).toEqual([]);
    process.kill(maker, 'SIGSTOP');
    const opening = runner.create().catch((error: { code?: string }) => error.code);
    await sleep(100);
    const groups = groupsOf(runner.place.directory);
    const asked = performance.now();
    await runner.client.close();
    await eventually(
      () => runner.ended !== undefined,
      8000,
      () => alive([runner.pid, maker]).join('\n'),
    );
    expect(performance.now() - asked).toBeGreaterThan(4000);
    expect(runner.ended).toEqual({ code: 0, signal: null });
    expect(await opening).toBe('runner_lost');
    expect(alive([maker])).toEqual([]);
    expect(leftovers(runner.place.base, groups)).toEqual([]);
  });

  it('of the runner: nothing is alive at once, and the next start sweeps the rest', {
    timeout: within(300_000),
  }, async () => {
    const dead: { groups: readonly string[]; base: string }[] = [];
    const beside = mkdtempSync(join(tmpdir(), 'boxkite-beside-'));
    try {
      for (let index = 0; index < ROUNDS; index += 1) {
        const runner = await startRunner({ beside });
        const sandboxes = await Promise.all([runner.create(), runner.create()]);
        const running = sandboxes.flatMap((sandbox) => [
          sandbox.exec({ argv: ['/bin/sh', '-c', 'trap "" TERM HUP; (setsid sleep 60 &); sleep 60'] }).then(collect),
          sandbox.exec({ argv: ['/bin/cat', '/dev/zero'] }),
          sandbox.agent().then((agent) => agent.write('/workspace/x', Buffer.alloc(1 << 20))),
        ]);
        const settled = Promise.allSettled(running);
        await sleep(Math.random() * 60);
        const members = family(runner.pid);
        const groups = groupsOf(runner.place.directory);
        if (lane === 'root') expect(groups.length).toBeGreaterThan(0);
        await runner.kill();
        await eventually(
          () => alive(members).length === 0,
          1000,
          () => alive(members).join('\n'),
        );
        const outcomes = await settled;
        for (const outcome of outcomes)
          if (outcome.status === 'rejected')
            expect
              .soft(outcome.reason)
              .toSatisfy(
                (error: { code?: string; name?: string }) =>
                  error.code === 'runner_lost' || error.name === 'FileAgentDisconnectedError',
              );
        expect(runner.ended).toEqual({ code: null, signal: 'SIGKILL' });
        dead.push({ groups, base: runner.place.base });
      }
      await using next = await startRunner({ beside });
      await using works = await next.create();
      expect((await sh(works, 'echo works')).stdout).toBe('works\n');
      const left = (): readonly string[] => [
        ...dead.flatMap((one) => leftovers(one.base, one.groups)),
        ...readdirSync(beside)
          .filter((name) => name !== basename(next.place.directory))
          .map((name) => `directory ${name}`),
      ];
      await eventually(
        () => left().length === 0,
        3000,
        () => left().slice(0, 20).join('\n'),
      );
    } finally {
      for (const one of dead) rmSync(one.base, { recursive: true, force: true });
      rmSync(beside, { recursive: true, force: true });
    }
  });

  it('of PID 1 of an envelope: the exec ends as killed, and the next one works', {
    timeout: within(60_000),
  }, async () => {
    await using runner = await startRunner({ blanks: 0 });
    await using sandbox = await runner.create();
    for (let index = 0; index < ROUNDS; index += 1) {
      const handle = await sandbox.exec({
        argv: ['/bin/sh', '-c', 'trap "" TERM; (setsid sleep 60 &); echo on; sleep 60'],
      });
      await sleep(Math.random() * 30);
      const inits = initsBelow(runner);
      expect(inits.length).toBeGreaterThan(0);
      const members = inits.flatMap(family);
      for (const pid of inits) process.kill(pid, 'SIGKILL');
      const { record } = await collect(handle);
      expect(record).toMatchObject({ end: 'killed', reason: 'init_died', exit_code: null });
      expect(alive(members)).toEqual([]);
    }
    expect((await sh(sandbox, 'echo works')).stdout).toBe('works\n');
    expect((await runner.client.list()).sandboxes[0]).toMatchObject({ envelopes: 1, idle: 1 });
  });
});

/** PID 1 of each envelope of a runner that runs a command: the last of its pids in nested namespaces is 1. */
function initsBelow(runner: TestRunner): readonly number[] {
  const below = processesOf(runner.pid, '/nonexistent');
  return below
    .filter((entry) => {
      try {
        const ids = /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${entry.pid}/status`, 'utf8'))?.[1]?.split(/\s+/) ?? [];
        return ids.length > 1 && ids.at(-1) === '1' && below.some((other) => other.parent === entry.pid);
      } catch {
        // It has gone.
        return false;
      }
    })
    .map((entry) => entry.pid);
}

/** Attaches to a record that a dead client left and reads it: every byte from what was committed on, then the end. */
async function readToEnd(runner: TestRunner, exec: bigint): Promise<void> {
  const socket = await runner.connect();
  socket.write(frame(TYPE.attach, 1, Buffer.concat([u64(exec), Buffer.from([0])])));
  let next = -1;
  for await (const one of frames(socket)) {
    if (one.type === TYPE.attached) next = Number(one.payload.readBigUInt64LE(8));
    else if (one.type === TYPE.output) {
      expect(Number(one.payload.readBigUInt64LE(16))).toBe(next);
      const bytes = one.payload.subarray(24);
      const wanted = expectedOutput(next, bytes.length);
      expect(bytes.toString('latin1') === wanted, `bytes from ${next}`).toBe(true);
      next += bytes.length;
      socket.write(frame(TYPE.commit, 2, commitPayload(exec, BigInt(next), 0n, false)));
    } else if (one.type === TYPE.ended) {
      expect(next).toBe(480_000);
      expect([one.payload.readUInt8(8), one.payload.readInt32LE(12)]).toEqual([1, 7]);
      socket.write(frame(TYPE.commit, 3, commitPayload(exec, 0n, 0n, true)));
      break;
    } else expect(one.type).toBe(TYPE.attached);
  }
  expect(next).toBe(480_000);
}

function expectedOutput(from: number, length: number): string {
  const first = Math.floor(from / 16);
  const last = Math.ceil((from + length) / 16);
  let text = '';
  for (let line = first; line < last; line += 1) text += `${String(line).padStart(15, '0')}\n`;
  return text.slice(from - first * 16, from - first * 16 + length);
}
