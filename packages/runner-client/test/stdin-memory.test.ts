/** Standard input that nobody reads: what may wait of it is bounded, and nothing that was accepted is lost. */
import { Buffer } from 'node:buffer';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { failureOf } from './support/collect.ts';
import { type FakePeer, FakeRunner, type Frame, obliging } from './support/fake-runner.ts';
import { sampleError } from './support/layouts.ts';

const MIB = 1024 * 1024;
const BOUND = 16 * MIB;

/** Starts execs that never end; those that are made so do not read their input. */
function stalled(reads: (exec: bigint) => boolean): (peer: FakePeer, frame: Frame) => void {
  const others = obliging();
  let exec = 0n;
  return (peer, frame) => {
    if (frame.name === 'exec') {
      exec += 1n;
      peer.started(frame.request, exec);
      return;
    }
    others(peer, frame);
    if (frame.name === 'attach' && !reads(BigInt(String(frame.fields['exec'])))) peer.socket.pause();
  };
}

function received(peer: FakePeer | undefined): number {
  return peer?.raw?.reduce((sum, part) => sum + part.length, 0) ?? 0;
}

describe('standard input that is not read', () => {
  it('is refused beyond the bound, keeps its order, and is accepted again once it is read', async () => {
    await using runner = await FakeRunner.start(stalled(() => false));
    const execution = await (await runner.client(undefined, BOUND)).exec(1n, { argv: ['sleep'], stdin: 'stream' });
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const settled = execution.write(Buffer.alloc(MIB, index)).then(
          () => 'taken',
          (error: { readonly code: string }) => error.code,
        );
        return { settled, early: await Promise.race([settled, delay(300, 'waits')]) };
      }),
    );
    const accepted = outcomes.filter(({ early }) => early !== 'capacity');
    // A holder may have half of it all: as much as is left for the others.
    expect(accepted.length).toBeGreaterThanOrEqual(6);
    expect(accepted.length).toBeLessThanOrEqual(8);
    const input = runner.peers[1] as FakePeer;
    input.socket.resume();
    expect(new Set(await Promise.all(accepted.map(({ settled }) => settled)))).toEqual(new Set(['taken']));
    await execution.write(Buffer.alloc(7 * MIB, 99));
    await expect.poll(() => received(input)).toBe((accepted.length + 7) * MIB);
    const bytes = Buffer.concat(input.raw ?? []);
    expect(accepted.map((_, index) => bytes[index * MIB])).toEqual(accepted.map((_, index) => index));
  });

  it('bounds what waits for many commands, and leaves a share for other sandboxes', async () => {
    await using runner = await FakeRunner.start(stalled((exec) => exec === 5n));
    const client = await runner.client(undefined, BOUND);
    const outcomes: string[] = [];
    for (let exec = 0; exec < 16; exec += 1) {
      const started = client.exec(1n, { argv: ['sleep'], stdin: Buffer.alloc(2 * MIB) });
      outcomes.push(
        await started.then(
          () => 'started',
          (error: { readonly code: string }) => error.code,
        ),
      );
    }
    expect(outcomes.filter((outcome) => outcome === 'started')).toHaveLength(4);
    expect(new Set(outcomes.slice(4))).toEqual(new Set(['capacity']));
    const other = await client.exec(2n, { argv: ['cat'], stdin: 'stream' });
    for (let piece = 0; piece < 40; piece += 1) await other.write(Buffer.alloc(MIB));
    const more = await client.exec(1n, { argv: ['sleep'], stdin: 'stream' });
    // A little that is alone is no danger.
    expect(await Promise.race([more.write(Buffer.alloc(64 * 1024)), delay(1000, 'waits')])).toBeUndefined();
    expect(await failureOf(more.write(Buffer.alloc(4 * MIB)))).toMatchObject({ code: 'capacity' });
  });

  it('gives the memory back at the end of its command, and where it is not started', async () => {
    const script = stalled(() => false);
    let main: FakePeer | null = null;
    let refuse = true;
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'exec') main = peer;
      if (frame.name === 'exec' && refuse) peer.send('error', frame.request, sampleError(13, 'pass descriptor', 24));
      else script(peer, frame);
    });
    const client = await runner.client(undefined, BOUND);
    const big = { argv: ['sleep'], stdin: Buffer.alloc(7 * MIB) };
    for (let tries = 0; tries < 3; tries += 1)
      expect((await failureOf(client.exec(1n, big))).code).not.toBe('capacity');
    refuse = false;
    await client.exec(1n, big);
    await expect.poll(() => runner.peers[1]?.raw).not.toBeNull();
    expect((await failureOf(client.exec(1n, big))).code).toBe('capacity');
    (main as FakePeer | null)?.end(1n);
    await expect.poll(() => client.exec(1n, big).then(() => 'started')).toBe('started');
  });

  it('has no bound where none was asked for', async () => {
    await using runner = await FakeRunner.start(stalled(() => false));
    const execution = await (await runner.client()).exec(1n, { argv: ['sleep'], stdin: 'stream' });
    const writes = Array.from({ length: 40 }, () => execution.write(Buffer.alloc(MIB)));
    await delay(50);
    runner.peers[1]?.socket.resume();
    await Promise.all(writes);
  });
});
