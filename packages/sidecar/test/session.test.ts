import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createByteRedactor } from '@boxkite/policy';
import { BoxkiteError } from '@boxkite/protocol';
import { describe, expect, it, vi } from 'vitest';
import { MOST_RUNNING } from '../src/session/session-execs.ts';
import type { Write } from './support/model-runner.ts';
import { byteAt, Heard, Host, hear, numbered } from './support/sessions.ts';

const MIB = 1024 * 1024;
const SECRETS = { TOKEN: 'correct horse battery', KEY: 'batterystaple-42', OTHER: 'aaaaaaaaaa' };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes in buffers that somebody still holds: the least of several looks, since they are freed in the background. */
async function heldBytes(): Promise<number> {
  let least = Infinity;
  for (let look = 0; look < 5; look += 1) {
    collectGarbage();
    await delay(10);
    least = Math.min(least, process.memoryUsage().arrayBuffers);
  }
  return least;
}

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof BoxkiteError) return error.code;
    throw error;
  }
  throw new Error('it did not fail');
}

function writes(...texts: string[]): Write[] {
  return texts.map((text) => ({ stream: 'stdout', data: Buffer.from(text) }));
}

function redacted(all: readonly Write[]): string {
  const redactor = createByteRedactor(SECRETS);
  const parts = all.map(({ data }) => Buffer.from(redactor.push(data)));
  return Buffer.concat([...parts, Buffer.from(redactor.flush())]).toString('latin1');
}

/** Each byte that was heard is the one of its offset, and the rest is said to be missing. */
function checkNumbered(heard: Heard, from: number, to: number): void {
  expect(heard.at).toBe(to);
  const all = Buffer.concat(heard.bytes);
  let [index, at] = [0, from];
  for (const [gapFrom, gapTo] of [...heard.gaps, [to, to] as const]) {
    for (; at < gapFrom; at += 1, index += 1) {
      if (all[index] !== byteAt(at)) throw new Error(`another byte at ${at}`);
    }
    at = gapTo;
  }
  expect(index).toBe(all.length);
}

describe('a record', () => {
  it('is read from every offset across every planted secret, running, ended and after a restart', async () => {
    const planted = writes(
      'begin correct horse bat',
      'tery end ',
      Buffer.from(SECRETS.KEY).toString('base64'),
      ' x ',
      'correct horse batterystaple-42',
      ' overlap ',
      'aaaaaaaaaaaaaaaaaaaaaaaaa',
      ' hex ',
      Buffer.from(SECRETS.TOKEN).toString('hex'),
      '\ncorrect horse bat',
    );
    const long = [...planted, ...writes('.'.repeat(100_000)), ...planted];
    await using host = await Host.start({ short: planted, long }, ['short', 'long']);
    const whole = { short: redacted(planted), long: redacted(long) };
    const ids = {
      short: await host.start('short', { secret_env: SECRETS }),
      long: await host.start('long', { secret_env: SECRETS }),
    };
    const check = async (complete: boolean): Promise<void> => {
      for (const name of ['short', 'long'] as const) {
        const { stdout_bytes: end } = await host.session.execs.get(ids[name]);
        if (complete) expect(end).toBe(whole[name].length);
        expect(end).toBeGreaterThan(100);
        const offsets = Array.from({ length: end }, (_, offset) => offset).filter((o) => o < 400 || o > end - 400);
        for (const offset of offsets) {
          const heard = await hear(host.session, ids[name], offset, false);
          expect(heard.text === whole[name].slice(offset, end)).toBe(true);
        }
      }
    };
    await vi.waitFor(
      async () => expect((await host.session.execs.get(ids.long)).stdout_bytes).toBeGreaterThan(100_000),
      20_000,
    );
    await check(false);
    host.runner.finish(1n);
    host.runner.finish(2n);
    await vi.waitFor(() => expect(host.runner.execs.size).toBe(0), 20_000);
    await check(true);
    await host.session.close();
    await host.open();
    await check(true);
    expect(whole.short).not.toContain('horse battery');
  });

  it('is there with its end when nobody has looked', async () => {
    await using host = await Host.start({ plan: writes('left') });
    const id = await host.start('plan');
    await vi.waitFor(() => expect(host.runner.execs.size).toBe(0), 20_000);
    expect(await host.session.execs.list()).toMatchObject([
      { exec_id: id, state: 'ended', stdout_bytes: 4, record: { end: 'exited', exec_id: id } },
    ]);
    expect((await hear(host.session, id)).text).toBe('left');
    expect(await failure(host.session.execs.write(id, Buffer.from('x')))).toBe('exec_ended');
    expect(await failure(host.session.execs.get('no-such'))).toBe('not_found');
  });

  it('is killed while it is taken up, also where the runner has nothing of it any more', async () => {
    await using host = await Host.start({ plan: writes('some') }, ['plan']);
    const ids = [await host.start('plan'), await host.start('plan')];
    await host.session.close();
    await host.open();
    host.runner.execs.delete(1n);
    await Promise.all(ids.map((id) => host.session.execs.kill(id)));
    const ends = (await host.session.execs.list()).map(({ record }) => record?.end);
    expect(ends).toEqual(['lost', 'killed']);
  });

  it('gives way to newer ones beyond 1,000, and to none that runs', async () => {
    await using host = await Host.start({ plan: writes('out'), held: writes('in') }, ['held']);
    const running = await host.start('held');
    const ids: string[] = [];
    for (let count = 0; count < 1010; count += 1) {
      ids.push((await host.session.execs.run({ argv: ['sh', 'plan'] })).record.exec_id);
    }
    const expected = [running, ...ids.slice(10)];
    expect((await host.session.execs.list()).map(({ exec_id }) => exec_id)).toEqual(expected);
    expect(await failure(host.session.execs.get(ids[9] as string))).toBe('not_found');
    await host.session.close();
    await host.open();
    expect((await host.session.execs.list()).map(({ exec_id }) => exec_id)).toEqual(expected);
    expect((await hear(host.session, ids[500] as string)).text).toBe('out');
  });

  it('gives up the output of the oldest beyond 64 MiB, and says so', async () => {
    await using host = await Host.start({ plan: numbered(9 * MIB) });
    const ids: string[] = [];
    for (let count = 0; count < 9; count += 1) {
      const id = await host.start('plan');
      await hear(host.session, id, 9 * MIB);
      ids.push(id);
    }
    await vi.waitFor(() => expect(host.runner.execs.size).toBe(0), 20_000);
    const oldest = await hear(host.session, ids[0] as string);
    expect(oldest.gaps).toEqual([[0, 9 * MIB]]);
    const newest = await hear(host.session, ids[8] as string);
    expect(newest.gaps).toEqual([[4 * MIB, 5 * MIB]]);
    checkNumbered(newest, 0, 9 * MIB);
  });
});

it('runs a bounded number of commands at once, also when all are asked for together', async () => {
  await using host = await Host.start({ plan: [] }, ['plan']);
  const starts = Array.from({ length: MOST_RUNNING + 20 }, () => host.start('plan'));
  const refused = (await Promise.allSettled(starts)).filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(20);
  expect(await failure(host.start('plan'))).toBe('capacity');
  expect(host.session.running).toBe(MOST_RUNNING);
  host.runner.finish(1n);
  await vi.waitFor(() => expect(host.session.running).toBe(MOST_RUNNING - 1), 20_000);
  await host.start('plan');
});

describe('readers', () => {
  it('of 500 slow ones each gets its own bytes, and none holds the command or memory', async () => {
    const total = 12 * MIB;
    await using host = await Host.start({ plan: numbered(total) });
    const id = await host.start('plan', { limits: { output_bytes: 2 * MIB } });
    const before = await heldBytes();
    let most = 0;
    const readers = Array.from({ length: 500 }, async (_, number) => {
      const from = number * 1000;
      let [at, bytes] = [from, 0];
      for await (const event of host.session.execs.output(id, { stdout: from, only: 'stdout' })) {
        if (event.type === 'ended') break;
        if (event.type === 'gap') {
          at = event.to;
          continue;
        }
        if (event.offset !== at || event.data[0] !== byteAt(at)) throw new Error(`another byte at ${at}`);
        at += event.data.length;
        bytes += event.data.length;
        if (number === 0 && bytes % (40 * 65_536) === 0) most = Math.max(most, (await heldBytes()) - before);
        await delay(number % 7);
      }
      expect(at).toBe(total);
      expect(bytes).toBeGreaterThan(1.5 * MIB);
    });
    await Promise.all(readers);
    // Each has one piece in hand and one on its way.
    expect(most).toBeLessThan(500 * 2 * 65_536 + 48 * MIB);
  });

  it('that stall hold neither a command that may drop nor memory', async () => {
    await using host = await Host.start({ plan: numbered(64 * MIB, 262_144) });
    const id = await host.start('plan');
    const heard = new Heard();
    const stalled = host.session.execs.output(id, { only: 'stdout' })[Symbol.asyncIterator]();
    heard.take((await stalled.next()).value);
    const before = await heldBytes();
    for await (const event of host.session.execs.output(id, { only: 'stderr' })) expect(event.type).toBe('ended');
    expect((await heldBytes()) - before).toBeLessThan(8 * MIB);
    for (let next = await stalled.next(); next.done !== true; next = await stalled.next()) heard.take(next.value);
    expect(heard.gaps.length).toBe(1);
    checkNumbered(heard, 0, 64 * MIB);
  });

  it('of a command that must not drop lose nothing, however slow they are', async () => {
    const total = 20 * MIB;
    await using host = await Host.start({ plan: numbered(total) });
    const id = await host.start('plan', { overflow: 'block', limits: { output_bytes: 2 * MIB } });
    const heard = new Heard();
    let count = 0;
    for await (const event of host.session.execs.output(id, { only: 'stdout' })) {
      heard.take(event);
      count += 1;
      if (count % 20 === 0) await delay(2);
    }
    expect(heard.gaps).toEqual([]);
    checkNumbered(heard, 0, total);
    expect(host.runner.mostUncommitted).toBeLessThanOrEqual(MIB);
  });

  it('that borrow the bytes have them until they ask for the next ones', async () => {
    const total = 12 * MIB;
    await using host = await Host.start({ plan: numbered(total) });
    host.runner.readSizes = { block: 65_536, leastRead: 1024, leastHeld: 16 };
    await host.session.close();
    await host.open();
    const id = await host.start('plan', { overflow: 'block' });
    const other = await host.start('plan', { overflow: 'block' });
    const borrow = async (exec: string, pause: number): Promise<void> => {
      let at = 0;
      for await (const event of host.session.execs.output(exec, { only: 'stdout', lent: true })) {
        if (event.type !== 'output') continue;
        await delay(pause);
        const wrong = event.data.findIndex((byte, index) => byte !== byteAt(at + index));
        if (wrong >= 0) throw new Error(`another byte at ${at + wrong}`);
        at += event.data.length;
      }
      expect(at).toBe(total);
    };
    await Promise.all([borrow(id, 2), borrow(id, 0), borrow(other, 1)]);
  });

  it('that come late find a command waiting that must not drop, and one that is killed ends at once', async () => {
    const total = 12 * MIB;
    await using host = await Host.start({ plan: numbered(total) });
    const waiting = await host.start('plan', { overflow: 'block' });
    const killed = await host.start('plan', { overflow: 'block' });
    await vi.waitFor(
      async () => expect((await host.session.execs.get(killed)).stdout_bytes).toBeGreaterThan(7 * MIB),
      20_000,
    );
    await delay(100);
    expect(await host.session.execs.get(waiting)).toMatchObject({ state: 'running' });
    expect((await host.session.execs.get(waiting)).stdout_bytes).toBeLessThanOrEqual(8 * MIB);
    await host.session.execs.kill(killed);
    expect(await host.session.execs.get(killed)).toMatchObject({
      state: 'ended',
      record: { end: 'killed', reason: 'requested' },
    });
    const heard = await hear(host.session, waiting);
    expect(heard.gaps).toEqual([]);
    checkNumbered(heard, 0, total);
  });

  it('get the end when the sandbox goes, and nothing is left of it', async () => {
    await using host = await Host.start({ plan: writes('some', 'thing') }, ['plan']);
    const id = await host.start('plan');
    const readers = Array.from({ length: 20 }, () => new Heard());
    const reading = readers.map(async (heard) => {
      for await (const event of host.session.execs.output(id, { only: 'stdout' })) heard.take(event);
    });
    await vi.waitFor(() => expect(readers.every(({ at }) => at === 9)).toBe(true), 20_000);
    await host.session.end();
    await Promise.all(reading);
    for (const { text, end } of readers) expect([text, end]).toEqual(['something', 'killed sandbox_closed']);
    expect(existsSync(host.directory)).toBe(false);
    expect(await failure(host.session.execs.start({ argv: ['sh'] }))).toBe('closing');
    await host.session.end();
  });

  it('are told when the process stops, and go on at the next one', async () => {
    await using host = await Host.start({ plan: writes('some') }, ['plan']);
    const id = await host.start('plan');
    const heard = new Heard();
    const told = failure(
      (async () => {
        for await (const event of host.session.execs.output(id)) heard.take(event);
      })(),
    );
    await vi.waitFor(() => expect(heard.at).toBe(4), 20_000);
    await host.session.close();
    expect(await told).toBe('state_unavailable');
    await host.open();
    host.runner.finish(1n);
    const rest = await hear(host.session, id, heard.at);
    expect([rest.text, rest.end]).toEqual(['', 'exited null']);
  });
});

describe('while no process is there', () => {
  it('a reader is told what was dropped, and has every other byte', async () => {
    const total = 9 * MIB;
    await using host = await Host.start({ plan: numbered(total) });
    host.runner.pauseAt = 2 * MIB + 65_536;
    const id = await host.start('plan');
    const heard = new Heard();
    for await (const event of host.session.execs.output(id, { only: 'stdout' })) {
      heard.take(event);
      if (heard.at === host.runner.pauseAt) break;
    }
    await host.session.close();
    host.cut();
    host.runner.pauseAt = Infinity;
    host.runner.goOn();
    await host.open();
    for await (const event of host.session.execs.output(id, { stdout: heard.at, only: 'stdout' })) heard.take(event);
    expect(heard.gaps).toEqual([[2 * MIB + 65_536, total - MIB]]);
    checkNumbered(heard, 0, total);
    const again = await hear(host.session, id);
    expect(again.gaps).toEqual(heard.gaps);
    checkNumbered(again, 0, total);
  });
});

describe('run', () => {
  it('keeps both ends, and the abort of its caller kills it', async () => {
    await using host = await Host.start({ plan: numbered(3 * MIB), held: writes('x') }, ['held']);
    const { stdout, stdout_truncated, record } = await host.session.execs.run({
      argv: ['sh', 'plan'],
      limits: { output_bytes: MIB },
      overflow: 'block',
    });
    expect([stdout.length, stdout_truncated, record.stdout_bytes]).toEqual([MIB, true, 3 * MIB]);
    expect([stdout[0], stdout[MIB / 2 - 1], stdout[MIB / 2], stdout[MIB - 1]]).toEqual(
      [0, MIB / 2 - 1, 2.5 * MIB, 3 * MIB - 1].map(byteAt),
    );
    const controller = new AbortController();
    const running = host.session.execs.run({ argv: ['sh', 'held'] }, controller.signal);
    await vi.waitFor(() => expect(host.session.running).toBe(1), 20_000);
    controller.abort();
    expect((await running).record).toMatchObject({ end: 'killed', reason: 'requested' });
  });

  it('takes no more of an environment than is allowed, nor secrets that can not be hidden', async () => {
    await using host = await Host.start({});
    for (const request of [
      { secret_env: { PATH: 'x' } },
      { env: { node_options: 'x' } },
      { secret_env: { '1A': 'x' } },
      { secret_env: { A: 'x'.repeat(16_385) } },
      { secret_env: Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`A${index}`, `value-${index}`])) },
      { limits: { output_bytes: 65 * MIB } },
    ]) {
      expect(await failure(host.session.execs.run({ argv: ['sh'], ...request }))).toBe('invalid_request');
    }
  });
});
