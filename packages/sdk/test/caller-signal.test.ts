import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { Sandbox } from '../src/sandbox.ts';
import { FakeHandle, FakeSandbox, script } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

test('a command that has ended leaves nothing on the signal of its caller, and is not killed by it', async () => {
  const fake = new FakeSandbox(async () => new FakeHandle(script([Buffer.from('text')])));
  await using server = await V1Server.start(fake);
  const sandbox = await Sandbox.create({ url: server.url });
  const caller = new AbortController();
  const { signal } = caller;
  await sandbox.exec('x', { signal });
  const stream = sandbox.stream('x', { signal });
  for await (const event of stream) expect(['start', 'output', 'ended']).toContain(event.type);
  await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0);
  const before = server.seen.length;
  caller.abort();
  await sandbox.exec('x');
  expect(server.seen.slice(before).filter((call) => call.includes('/signal'))).toEqual([]);
});
