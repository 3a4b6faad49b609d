/** A connection that a runner takes and does not hand on. */
import { afterEach, expect, it, vi } from 'vitest';
import { handOver } from '../src/handover.ts';
import { encodeAttach } from '../src/operations.ts';
import { FakeRunner, obliging } from './support/fake-runner.ts';

afterEach(() => vi.useRealTimers());

it('is given up after a minute', async () => {
  await using runner = await FakeRunner.start(() => undefined);
  const socket = await runner.connect();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const lost = expect(handOver(socket, encodeAttach(1, 1n, 1))).rejects.toMatchObject({ code: 'runner_lost' });
  vi.advanceTimersByTime(59_000);
  expect(socket.destroyed).toBe(false);
  vi.advanceTimersByTime(2000);
  await lost;
  expect(socket.destroyed).toBe(true);
});

it('stays for as long as it is used once it was handed on', async () => {
  await using runner = await FakeRunner.start(obliging());
  const socket = await runner.connect();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  expect(await handOver(socket, encodeAttach(1, 1n, 1))).toBe(socket);
  expect(vi.getTimerCount()).toBe(0);
  socket.destroy();
});
