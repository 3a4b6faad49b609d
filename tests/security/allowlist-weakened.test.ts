/** The twin without the kernel's layer of a list: every attack that the layer stops must succeed there, or it proves nothing. */
import { lane, startRunner } from '@boxkite/testing';
import { describe, expect, it } from 'vitest';
import { ATTACKS, attack, NEVER, PROGRAMS, REFUSED_ANYWAY } from './support/code-attacks.ts';

describe(`the weakened twin, ${lane}`, () => {
  it.each(ATTACKS.filter((name) => !REFUSED_ANYWAY.has(name)))('is caught by %s', async (name) => {
    await using runner = await startRunner({ weaken: ['programs'] });
    await using sandbox = await runner.create({ programs: { programs: PROGRAMS } });
    expect(sandbox.effective.programs).toMatchObject({ enforced: 'none', via: [] });
    expect(sandbox.effective.layers.programs).toBe(false);
    const ways = await attack(sandbox, name);
    const refused = Object.keys(ways).filter((way) => ways[way] !== 'RAN' && !NEVER.has(way));
    expect(refused, JSON.stringify(ways, null, 1)).toEqual([]);
  });
});
