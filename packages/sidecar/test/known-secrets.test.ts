import { BoxkiteError } from '@boxkite/protocol';
import { describe, expect, it } from 'vitest';
import { KnownSecrets } from '../src/session/known-secrets.ts';

const value = (name: string, length = 40): string => `${name}-${'v'.repeat(length)}`;

describe('secret values of a session', () => {
  it('have to be saved by everybody who uses them until somebody has', () => {
    const secrets = new KnownSecrets();
    const first = secrets.with({ A: value('a') });
    const second = secrets.with({ A: value('a') });
    expect(first.isNew).toBe(true);
    expect(second).toEqual(first);
    secrets.saved(first.set);
    expect(secrets.with({ A: value('a') })).toEqual({ set: first.set, isNew: false });
  });

  it('are forgotten where they could not be saved, so that the same call is not let through', () => {
    const secrets = new KnownSecrets();
    const kept = secrets.with({ A: value('a') });
    secrets.saved(kept.set);
    const lost = secrets.with({ B: value('b') });
    secrets.hold(lost.set);
    secrets.withdraw(lost.set);
    secrets.release(lost.set);
    expect(secrets.kept()).toMatchObject({ current: kept.set.id });
    expect(Object.keys(secrets.kept().sets)).toEqual([kept.set.id]);
    expect(secrets.with({ A: value('a') })).toEqual({ set: kept.set, isNew: false });
    expect(secrets.with({ B: value('b') }).isNew).toBe(true);
  });

  it('stay where one of two calls could not save them, and the other one could', () => {
    const secrets = new KnownSecrets();
    const { set } = secrets.with({ A: value('a') });
    secrets.saved(set);
    secrets.withdraw(set);
    expect(secrets.kept().current).toBe(set.id);
  });

  it('are kept in memory for what runs with them alone, however often they change', () => {
    const secrets = new KnownSecrets();
    const used = Array.from({ length: 20 }, (_, turn) => {
      const { set } = secrets.with({ TOKEN: value(`${turn}`) });
      secrets.hold(set);
      secrets.saved(set);
      if (turn !== 5) secrets.release(set);
      return set;
    });
    expect(used.filter(({ id }) => secrets.find(id) !== null)).toEqual([used[5], used[19]]);
  });

  it('are refused, and change nothing, where the supervisor would have no room for those of all that run', () => {
    const secrets = new KnownSecrets();
    let refusal: unknown = null;
    let running = 0;
    for (; refusal === null && running < 100; running += 1) {
      const values = Object.fromEntries(
        [0, 1, 2, 3].map((place) => [`V${place}`, value(`${running}.${place}`, 15_000)]),
      );
      const before = secrets.kept();
      try {
        const { set } = secrets.with(values);
        secrets.hold(set);
        secrets.saved(set);
      } catch (error) {
        refusal = error;
        expect(secrets.kept()).toEqual(before);
      }
    }
    expect(refusal).toBeInstanceOf(BoxkiteError);
    expect(refusal).toMatchObject({ code: 'capacity' });
    expect(running).toBeGreaterThan(3);
    expect(Buffer.byteLength(JSON.stringify(secrets.kept()))).toBeLessThan(460 * 1024);
  });
});
