import { expect, it } from 'vitest';
import { z } from 'zod';
import { daemonSettings } from '../src/settings.ts';
import { Host } from './support/sessions.ts';

const blob = z.object({ parts: z.object({ interpreter: z.unknown() }) });

it('an interpreter is still known to the process after next where this one ends while it looks for it', async () => {
  await using host = await Host.start({});
  const interpreter = { exec_id: '7', started_at: '2026-01-02T03:04:05.000Z', interrupts: 3 };
  await host.session.close();
  await host.state.put(
    Buffer.from(
      JSON.stringify({
        version: 1,
        instance: '0123456789',
        secrets: { current: null, sets: {} },
        configured: null,
        parts: { interpreter },
      }),
    ),
  );
  const never = new Promise<never>(() => undefined);
  host.more = {
    runner: { call: () => never, ended: false, lost: never },
    settings: { ...daemonSettings, budget: { execs: 5, seconds: 0 } },
  };
  const session = await host.open();
  await session.services.budget.reserve();
  const kept = blob.parse(JSON.parse(Buffer.from(host.state.get() ?? []).toString()));
  expect(kept.parts.interpreter).toEqual(interpreter);
});
