import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { Host, numbered } from './support/sessions.ts';

it('a command that has ended leaves nothing on the signal of its caller, which may be that of many', async () => {
  await using host = await Host.start({ plan: numbered(1000) });
  const { signal } = new AbortController();
  for (let call = 0; call < 3; call += 1) await host.session.execs.run({ argv: ['sh', 'plan'] }, signal);
  const handle = await host.session.exec({ argv: ['sh', 'plan'] }, signal);
  for await (const event of handle) if (event.type === 'ended') break;
  await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0);
});
