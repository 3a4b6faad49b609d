import { expect, test, vi } from 'vitest';
import type { Session } from '../src/app.ts';
import { SessionRegistry } from '../src/session/session-registry.ts';

const compared: Uint8Array[][] = [];
vi.mock(import('node:crypto'), async (original) => {
  const crypto = await original();
  return {
    ...crypto,
    timingSafeEqual: (one, other) => {
      compared.push([one, other] as Uint8Array[]);
      return crypto.timingSafeEqual(one, other);
    },
  };
});

const session = { id: 'one' } as Session;
const TOKEN = 'a-token-of-32-characters-or-more';

test('a token opens its own session, and nothing near it opens anything', () => {
  const registry = new SessionRegistry();
  expect(registry.isEmpty).toBe(true);
  registry.add(TOKEN, session);
  expect([registry.isEmpty, registry.find(TOKEN)]).toEqual([false, session]);
  for (const near of ['', TOKEN.slice(1), TOKEN.slice(0, -1), `${TOKEN}x`, TOKEN.toUpperCase(), '__proto__'])
    expect(registry.find(near)).toBe(null);
  registry.remove(TOKEN);
  expect([registry.isEmpty, registry.find(TOKEN)]).toEqual([true, null]);
});

test('is found by its hash, which is compared in constant time, and never by its text', () => {
  const registry = new SessionRegistry();
  registry.add(TOKEN, session);
  compared.length = 0;
  registry.find(TOKEN);
  expect(compared).toHaveLength(1);
  for (const bytes of compared.flat()) {
    expect(bytes).toHaveLength(32);
    expect(Buffer.from(bytes).toString('latin1')).not.toContain(TOKEN.slice(0, 8));
  }
});
