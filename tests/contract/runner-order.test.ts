/** What the runner makes of things that fall together: it stands still while they happen, then sees them in one turn. */
import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import type { BoxkiteError } from '@boxkite/protocol';
import {
  collect,
  eventually,
  execPayload,
  frame,
  frames,
  lane,
  type RawFrame,
  sleep,
  slowness,
  startRunner,
  type TestRunner,
  TYPE,
  u64,
  within,
} from '@boxkite/testing';
import { describe, expect, it } from 'vitest';
import { childrenOf, runnerWithoutDescriptors } from './support/without-descriptors.ts';

const SIGKILL_ALL = Buffer.from([9, 1]);

/** A connection that the runner has accepted: what is written from now on comes in this order. */
async function rawConnection(runner: TestRunner) {
  const socket = await runner.connect();
  const answers = frames(socket)[Symbol.asyncIterator]();
  socket.write(frame(TYPE.list, 1, Buffer.from([0])));
  await answers.next();
  const next = async (): Promise<RawFrame> => {
    const { done, value } = await answers.next();
    if (done === true) throw new Error('the connection has ended');
    return value;
  };
  return { socket, next };
}

function statusOf(pid: number): string {
  return readFileSync(`/proc/${pid}/status`, 'utf8');
}

/** Runs `meanwhile` while a process stands still. */
async function standing<T>(pid: number, meanwhile: () => Promise<T>): Promise<T> {
  process.kill(pid, 'SIGSTOP');
  try {
    return await meanwhile();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

async function refusal(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'ok',
    (error: BoxkiteError) => error.code,
  );
}

describe(`an envelope, ${lane}`, () => {
  it('that was killed as its command ended is not used again', async () => {
    await using runner = await startRunner({ blanks: 0, idleSeconds: 60 });
    await using sandbox = await runner.create();
    const [killer, next] = [await rawConnection(runner), await rawConnection(runner)];
    let killed = 0;
    for (let round = 0; round < 5; round += 1) {
      const handle = await sandbox.exec({ argv: ['/bin/sleep', '0.3'] });
      // One turn later nothing is left of the start: the kernel tells what was ready before ahead of what becomes so.
      await runner.client.list();
      await standing(runner.pid, async () => {
        killer.socket.write(frame(TYPE.signal, 7, Buffer.concat([u64(BigInt(handle.exec_id)), SIGKILL_ALL])));
        // Its command ends by itself, which PID 1 tells; then another one is wanted.
        await sleep(within(1000));
        next.socket.write(frame(TYPE.exec, 8, execPayload(sandbox.number, ['/bin/true'])));
        await sleep(within(50));
      });
      const { end } = (await collect(handle)).record;
      expect((await killer.next()).type).toBe(end === 'killed' ? TYPE.done : TYPE.error);
      if (end === 'killed') killed += 1;
      expect((await next.next()).type).toBe(TYPE.started);
      expect((await next.next()).type).toBe(TYPE.ended);
    }
    // The other end, which is told first where the machine is slow, is nothing that this looks at.
    expect(killed).toBeGreaterThan(0);
  });

  it.each([
    ['is killed', {}],
    ['has no more time', { timeout_ms: 100 }],
  ])('shows its command no end of its input when that %s', async (_name, options) => {
    await using runner = await startRunner();
    await using sandbox = await runner.create();
    for (let round = 0; round < Math.ceil(40 / slowness); round += 1) {
      const argv = ['/bin/sh', '-c', 'cat >/dev/null; echo took it for the whole'];
      const handle = await sandbox.exec({ argv, stdin: 'stream', ...options });
      await handle.write(Buffer.from('a part'));
      if (!('timeout_ms' in options)) await handle.kill();
      const { record, stdout } = await collect(handle);
      expect(['killed', 'timed_out']).toContain(record.end);
      expect(stdout, `round ${round}`).toBe('');
    }
  });

  it('makes no work for the runner while a command runs in it for longer than one is kept idle', async () => {
    await using runner = await startRunner({ blanks: 0, idleSeconds: 1 });
    await using sandbox = await runner.create();
    const handle = await sandbox.exec({ argv: ['/bin/sleep', '60'] });
    const switches = (): number => Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(statusOf(runner.pid))?.[1]);
    await sleep(2500);
    const before = switches();
    await sleep(1000);
    expect(switches() - before).toBeLessThan(20);
    await handle.kill();
    await collect(handle);
  });

  it('is kept, then ended when it was idle for long, also after a command that took longer than that', async () => {
    await using runner = await startRunner({ blanks: 0, idleSeconds: 1 });
    await using sandbox = await runner.create();
    await collect(await sandbox.exec({ argv: ['/bin/sleep', '1.5'] }));
    const envelopes = async (): Promise<number | undefined> => (await runner.client.list()).sandboxes[0]?.envelopes;
    expect(await envelopes()).toBe(1);
    await eventually(
      async () => (await envelopes()) === 0,
      10_000,
      () => 'it is kept',
    );
  });
});

describe(`a list of programs, ${lane}`, () => {
  it('whose maker ends while a closed sandbox waits for it keeps that from nothing', async () => {
    await using runner = await startRunner({ blanks: 0 });
    const [first, second] = [await runner.create(), await runner.create()];
    const before = new Set(childrenOf(runner.pid));
    await runner.client.setPrograms(first.number, { programs: ['cat'] });
    await runner.client.setPrograms(first.number, null);
    // The maker is in the namespaces of no sandbox.
    const isPlain = (pid: number): boolean => !/^NSpid:.*\s1$/m.test(statusOf(pid));
    const [maker] = childrenOf(runner.pid).filter((pid) => !before.has(pid) && isPlain(pid));
    if (maker === undefined) throw new Error('the list has no maker');
    process.kill(maker, 'SIGSTOP');
    const change = refusal(runner.client.setPrograms(second.number, { programs: ['cat'] }));
    await sleep(within(200));
    const closing = runner.client.closeSandbox(second.number);
    await sleep(within(200));
    process.kill(maker, 'SIGKILL');
    expect(await change).not.toBe('ok');
    await closing;
    // The other one is as it was.
    expect((await collect(await first.exec({ argv: ['/bin/echo', 'works'] }))).stdout).toBe('works\n');
    await first.destroy();
  });
});

describe(`a connection, ${lane}`, () => {
  it('that asks for something and for files at once gets both answers', async () => {
    await using runner = await startRunner();
    await using sandbox = await runner.create();
    const socket = await runner.connect();
    socket.write(
      Buffer.concat([
        frame(TYPE.list, 1, Buffer.from([0])),
        frame(TYPE.file, 2, Buffer.concat([u64(sandbox.number), Buffer.from([0])])),
      ]),
    );
    const answers: [number, number][] = [];
    for await (const { type, request } of frames(socket)) {
      answers.push([type, request]);
      if (answers.length === 2) break;
    }
    socket.destroy();
    expect(answers).toEqual([
      [TYPE.listing, 1],
      [TYPE.done, 2],
    ]);
  });
});

if (lane === 'root') {
  runnerWithoutDescriptors();

  // The wait is the runner's own patience with a maker, which one lane is enough for.
  describe('a maker that does not answer', () => {
    it('keeps nobody waiting for ever', { timeout: within(120_000) }, async () => {
      await using runner = await startRunner({ blanks: 0 });
      const sandbox = await runner.create();
      // Its envelope is used, so that a fresh one is to be made.
      await collect(await sandbox.exec({ argv: ['/bin/true'] }));
      const [maker] = childrenOf(runner.pid).filter((pid) => !/^NSpid:.*\s1$/m.test(statusOf(pid)));
      if (maker === undefined) throw new Error('there is no maker');
      await standing(maker, async () => {
        const waiting = [
          refusal(sandbox.exec({ argv: ['/bin/true'], fresh: true })),
          refusal(runner.create()),
          refusal(runner.client.connectFiles(sandbox.number, 'commands')),
        ];
        expect(await Promise.all(waiting)).toEqual(['start_failed', 'start_failed', 'start_failed']);
      });
      expect((await collect(await sandbox.exec({ argv: ['/bin/echo', 'works'], fresh: true }))).stdout).toBe('works\n');
      await sandbox.destroy();
      expect((await runner.client.list()).sandboxes).toEqual([]);
    });
  });
}
