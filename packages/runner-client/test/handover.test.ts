/** A connection that a runner takes and does not hand on. */
import { Duplex } from 'node:stream';
import { BoxkiteError } from '@boxkite/protocol';
import { afterEach, expect, it, vi } from 'vitest';
import { handOver } from '../src/handover.ts';
import { encodeFrame } from './support/layouts.ts';

afterEach(() => vi.useRealTimers());

/** A socket whose other side says what it is given. */
function socket(): Duplex {
  return new Duplex({ read: () => undefined, write: (_bytes, _encoding, done) => done() });
}

it('is given up after a minute', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const silent = socket();
  const lost = expect(handOver(silent as never, Buffer.from('x'))).rejects.toSatisfy(
    (error) => error instanceof BoxkiteError && error.code === 'runner_lost',
  );
  vi.advanceTimersByTime(59_000);
  expect(silent.destroyed).toBe(false);
  vi.advanceTimersByTime(2000);
  await lost;
  expect(silent.destroyed).toBe(true);
});

it('stays for as long as it is used once it was handed on', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const taken = socket();
  const handed = handOver(taken as never, Buffer.from('x'));
  taken.push(encodeFrame('done', 1));
  expect(await handed).toBe(taken);
  expect(vi.getTimerCount()).toBe(0);
});
