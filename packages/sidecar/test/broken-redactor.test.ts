/** A redactor that fails takes the output of its command with it, and nothing else. */
import { afterEach, expect, it, vi } from 'vitest';
import { RawStream } from '../src/records/raw-stream.ts';
import { Host } from './support/sessions.ts';

afterEach(() => vi.restoreAllMocks());

it('a command whose output can not be redacted at all is lost, in this process and in the next', async () => {
  await using host = await Host.start({ plan: [{ stream: 'stdout', data: Buffer.from('text') }] });
  const fail = (): never => {
    throw new RangeError('the redactor is broken');
  };
  const push = vi.spyOn(RawStream.prototype, 'push').mockImplementation(fail);
  const flush = vi.spyOn(RawStream.prototype, 'flush').mockImplementation(fail);
  const { record } = await host.session.execs.run({ argv: ['sh', 'plan'] });
  expect(record.end).toBe('lost');
  expect(flush).toHaveBeenCalledTimes(2);
  await host.session.close();
  await host.open();
  push.mockRestore();
  flush.mockRestore();
  const { record: next } = await host.session.execs.run({ argv: ['sh', 'plan'] });
  expect(next.end).toBe('exited');
});
