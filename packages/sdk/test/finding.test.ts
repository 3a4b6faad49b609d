/** A daemon that does not answer keeps nobody longer than they want to wait. */
import { expect, test, vi } from 'vitest';
import { Sandbox } from '../src/sandbox.ts';

vi.mock(import('../src/server.ts'), async (original) => ({
  ...(await original()),
  findServer: () => new Promise(() => undefined),
}));

test.each([
  ['create', (options: object) => Sandbox.create(options)],
  ['connect', (options: object) => Sandbox.connect('a', options)],
  ['start', (options: object) => Sandbox.start('a', options)],
  ['list', (options: object) => Sandbox.list(options)[Symbol.asyncIterator]().next()],
])('%s', async (_name, call) => {
  await expect(call({ timeout_ms: 20 })).rejects.toMatchObject({ code: 'timeout' });
  await expect(call({ signal: AbortSignal.timeout(20) })).rejects.toMatchObject({ code: 'aborted' });
});
