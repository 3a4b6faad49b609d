/** kill -9 of a sandbox's file agent while a daemon's clients wait for it: every call ends, and nothing of it is kept. */
import { Buffer } from 'node:buffer';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { FileAgentClient } from '@boxkite/runner-client';
import {
  eventually,
  lane,
  processesOf,
  sleep,
  slowness,
  startDaemon,
  startRunner,
  type TestDaemon,
  within,
} from '@boxkite/testing';
import { Sandbox } from 'boxkite';
import { describe, expect, it } from 'vitest';

const ROUNDS = Math.ceil(25 / slowness);
/** What a call may end with: whether it has taken effect can not be known. */
const ENDS = new Set(['ok', 'io_error', 'connection_lost']);
const LARGE = 20 << 20;

async function* slowly(): AsyncGenerator<Uint8Array> {
  for (let part = 0; part < 20; part += 1) {
    yield new Uint8Array(1000);
    await sleep(10);
  }
}

/** Calls that take longer than the agent lives, each in a way of its own: bytes out, bytes in, records, one answer. */
const calls = {
  read: async ({ files }: Sandbox) => {
    for await (const part of files.readStream('large')) if (part.length === 0) throw new TypeError('an empty part');
  },
  'slow write': ({ files }: Sandbox) => files.write('slow', slowly()),
  write: ({ files }: Sandbox) => files.write('big', new Uint8Array(LARGE)),
  list: ({ files }: Sandbox) => files.list('many'),
  stat: async ({ files }: Sandbox) => {
    for (let again = 0; again < 20; again += 1) await files.stat('large');
  },
  move: async ({ files }: Sandbox, round: number) => {
    await files.write(`from-${round}`, 'x');
    await files.move(`from-${round}`, `to-${round}`);
  },
};

/** What an acknowledged call has left, whatever became of the agent after it. */
async function kept({ files }: Sandbox, round: number, ended: ReadonlyMap<string, string>): Promise<void> {
  if (ended.get('move') === 'ok') expect(await files.read(`to-${round}`)).toBe('x');
  if (ended.get('write') === 'ok') expect((await files.stat('big')).size).toBe(LARGE);
}

function agentsBelow(pid: number): readonly number[] {
  return processesOf(pid, '/nonexistent').flatMap(({ pid: one, name }) => (name === 'boxkite-agent' ? [one] : []));
}

async function endOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'ok',
    ({ code, message }: { readonly code?: string; readonly message: string }) => code ?? message,
  );
}

/** Kills them and returns which they were; they may still be dying then. */
function killNow(daemon: TestDaemon): readonly number[] {
  const agents = agentsBelow(daemon.pid);
  expect(agents.length).toBeGreaterThan(0);
  for (const pid of agents) process.kill(pid, 'SIGKILL');
  return agents;
}

/** Resolves when the runner has seen their end: a call that comes earlier may be handed to one that is dying. */
async function killAgents(daemon: TestDaemon): Promise<void> {
  const agents = killNow(daemon);
  await eventually(
    () => agents.every((pid) => !existsSync(`/proc/${pid}`)),
    10_000,
    () => `of ${agents.join()} one is left`,
  );
}

async function inTime<T>(work: Promise<T>, what: string): Promise<T> {
  const done = await Promise.race([work.then((value) => ({ value })), sleep(within(30_000)).then(() => null)]);
  if (done === null) throw new Error(`${what} waits for an agent that is gone`);
  return done.value;
}

describe(`kill -9 of a file agent, ${lane}`, () => {
  it('ends every call that waits for it, and the next ones work', { timeout: within(240_000) }, async () => {
    await using daemon = await startDaemon();
    await using sandbox = await Sandbox.create({ url: daemon.url });
    await sandbox.exec('mkdir many; cd many; seq 3000 | xargs touch; head -c 60000000 /dev/zero > ../large');
    const descriptors = (): number | null =>
      lane === 'root' ? readdirSync(`/proc/${daemon.nodePid()}/fd`).length : null;
    const ends = new Map<string, number>();
    const round = async (index: number): Promise<void> => {
      await sandbox.files.stat('large');
      const all = Object.entries(calls).map(async ([name, call]) => [name, await endOf(call(sandbox, index))] as const);
      await sleep(Math.random() * 40);
      await killAgents(daemon);
      const ended = new Map(await inTime(Promise.all(all), `a call of round ${index}`));
      for (const [name, end] of ended) {
        expect(ENDS, `${name} ended with ${end}`).toContain(end);
        ends.set(end, (ends.get(end) ?? 0) + 1);
      }
      await kept(sandbox, index, ended);
    };
    await round(0);
    const before = descriptors();
    for (let index = 1; index < ROUNDS; index += 1) await round(index);
    await sandbox.files.write('after', 'works');
    expect(await sandbox.files.read('after')).toBe('works');
    // Of those that were killed none is left.
    if (before !== null) {
      const most = before + Math.min(10, ROUNDS / 2);
      await eventually(
        () => (descriptors() ?? 0) < most,
        10_000,
        () => `${descriptors()} descriptors, ${before} before`,
      );
    }
    expect(ends.get('io_error') ?? 0, JSON.stringify([...ends])).toBeGreaterThan(0);
  });

  it('ends a call that sends nothing more', { timeout: within(240_000) }, async () => {
    await using daemon = await startDaemon();
    await using sandbox = await Sandbox.create({ url: daemon.url });
    const ends = new Set<string>();
    for (let round = 0; round < ROUNDS || (round < 300 && !ends.has('io_error')); round += 1) {
      await sandbox.exec('mkdir -p tree; cd tree; seq 2000 | xargs touch');
      await sandbox.files.stat('tree');
      // Nothing is sent while it waits, so that only the end of the connection can tell.
      const removing = endOf(sandbox.files.remove('tree'));
      await sleep(Math.random() * 15);
      await killAgents(daemon);
      const end = await inTime(removing, `the call of round ${round}`);
      expect(ENDS).toContain(end);
      ends.add(end);
    }
    expect(ends).toContain('io_error');
  });

  it('is not noticed by calls that may be sent twice', { timeout: within(240_000) }, async () => {
    await using daemon = await startDaemon();
    await using sandbox = await Sandbox.create({ url: daemon.url });
    await sandbox.files.write('here', 'x');
    for (let round = 0; round < ROUNDS * 4; round += 1) {
      const under = endOf(sandbox.files.stat('here'));
      if (round % 3 > 0) await under;
      killNow(daemon);
      const next = Promise.all([endOf(sandbox.files.stat('here')), endOf(sandbox.files.read('here'))]);
      expect([await under, ...(await next)], `round ${round}`).toEqual(['ok', 'ok', 'ok']);
    }
  });

  it('between calls is not noticed by the next one, not even by one that is never sent twice', async () => {
    await using daemon = await startDaemon();
    await using sandbox = await Sandbox.create({ url: daemon.url });
    for (let round = 0; round < 3; round += 1) {
      await sandbox.files.write(`from-${round}`, 'x');
      await killAgents(daemon);
      // The time in which the daemon sees it.
      await sleep(within(1000));
      await sandbox.files.move(`from-${round}`, `to-${round}`);
    }
  });
});

describe(`a file agent that has ended unseen, ${lane}`, () => {
  it('is replaced for the connection that comes first', async () => {
    await using runner = await startRunner();
    await using sandbox = await runner.create();
    const connect = () => runner.client.connectFiles(sandbox.number, 'commands');
    const kept = new FileAgentClient(await connect());
    await kept.write('/workspace/here', Buffer.from('x'));
    for (let round = 0; round < 5; round += 1) {
      const [agent] = processesOf(runner.pid, runner.place.base).filter(({ name }) => name === 'test-agent');
      if (agent === undefined) throw new Error('there is no agent');
      // While the runner stands still, the connection asks for the agent, which then ends: it is seen in this order.
      process.kill(runner.pid, 'SIGSTOP');
      const connecting = connect();
      await sleep(within(100));
      process.kill(agent.pid, 'SIGKILL');
      await eventually(
        () => hasEnded(agent.pid),
        10_000,
        () => 'the agent lives',
      );
      process.kill(runner.pid, 'SIGCONT');
      const next = new FileAgentClient(await connecting);
      expect((await next.readAll('/workspace/here')).toString()).toBe('x');
    }
    kept.close();
  });
});

/** Whether nothing of it is left but its record, as its parent does not know yet; its threads end one by one. */
function hasEnded(pid: number): boolean {
  const isRecord = /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return isRecord && readdirSync(`/proc/${pid}/task`).length === 1;
}
