import { setTimeout as delay } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Budget } from '../src/session/budget.ts';
import { daemonSettings, type SidecarSettings } from '../src/settings.ts';

/** Keeps what a budget keeps, as a supervisor does: each save takes a while. */
class Keeper {
  /** What the next process finds. */
  kept: unknown;
  saves = 0;
  /** Times that everything was ended. */
  ended = 0;
  saveMs = 0;
  endMs = 0;
  budget!: Budget;
  #saving: Promise<void> = Promise.resolve();

  open(limits: Partial<SidecarSettings['budget']>): Budget {
    const settings = { ...daemonSettings, budget: { ...daemonSettings.budget, ...limits } };
    const found = this.kept === undefined ? undefined : (JSON.parse(JSON.stringify(this.kept)) as unknown);
    this.budget = new Budget({ settings, found: () => found, save: () => this.#save() }, async () => {
      await delay(this.endMs);
      this.ended += 1;
    });
    return this.budget;
  }

  #save(): Promise<void> {
    const { budget } = this;
    this.saves += 1;
    this.#saving = this.#saving.then(async () => {
      await delay(this.saveMs);
      if (budget === this.budget) this.kept = budget.kept();
    });
    return this.#saving;
  }
}

function details(error: unknown): unknown {
  if (error instanceof BoxkiteError && error.code === 'session_budget_exceeded') return error.details;
  throw error;
}

const nothing = (): Promise<void> => Promise.resolve();
const forever = (): Promise<void> => new Promise(() => undefined);

describe('a budget of calls', () => {
  it('lets exactly as many through, of any number at once, by either way', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 12 }),
        fc.array(fc.boolean(), { minLength: 20, maxLength: 30 }),
        async (execs, ways) => {
          const budget = new Keeper().open({ execs });
          let ran = 0;
          const work = async (): Promise<void> => {
            ran += 1;
            await delay(0);
          };
          const calls = ways.map((way) => (way ? budget.run(work) : budget.reserve().then(work)));
          const outcomes = await Promise.allSettled(calls);
          expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(execs);
          expect(ran).toBe(execs);
        },
      ),
      { numRuns: 20 },
    );
  });

  it('ends what runs once, before it refuses, and refuses from then on', async () => {
    const keeper = new Keeper();
    keeper.endMs = 20;
    const budget = keeper.open({ execs: 1 });
    await budget.run(nothing);
    const refused = await Promise.all([1, 2, 3].map(() => budget.run(nothing).catch(details)));
    expect(refused).toEqual([1, 2, 3].map(() => ({ reason: 'exec_count', limit: 1, used: 1 })));
    expect(keeper.ended).toBe(1);
    expect(await budget.reserve().catch(details)).toMatchObject({ reason: 'exec_count' });
    budget.reset();
    await budget.run(nothing);
  });

  it('forgives no answered call to a restart, at any moment', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 3 })), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 0, max: 2 }),
        async (calls, saveMs) => {
          const keeper = new Keeper();
          keeper.saveMs = saveMs;
          const budget = keeper.open({ execs: 100 });
          let answered = 0;
          await Promise.all(
            calls.map(async ([way, ms]) => {
              await (way ? budget.run(() => delay(ms)) : budget.reserve());
              answered += 1;
              // Killed here, the next process knows of it.
              expect((keeper.kept as { calls: number }).calls).toBeGreaterThanOrEqual(answered);
            }),
          );
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe('a budget of seconds', () => {
  it('refuses the result that passes it, and counts what fails', async () => {
    const keeper = new Keeper();
    const budget = keeper.open({ seconds: 0.5 });
    await budget.run(() => delay(100));
    await expect(budget.run(() => Promise.reject(new Error('of the work')))).rejects.toThrow('of the work');
    const spent = (await budget.run(() => delay(600)).catch(details)) as { reason: string; used: number };
    expect(spent).toMatchObject({ reason: 'exec_seconds', limit: 0.5 });
    expect(spent.used).toBeGreaterThan(0.6);
    expect(spent.used).toBe(Number(spent.used.toFixed(3)));
    expect(keeper.ended).toBe(1);
    expect(await budget.run(nothing).catch(details)).toEqual(spent);
  });

  it('counts a call that a restart has cut, up to then, and ends again what a restart kept from being ended', async () => {
    const keeper = new Keeper();
    const first = keeper.open({ seconds: 0.5 });
    void first.run(forever);
    await delay(600);
    expect(keeper.kept).toMatchObject({ calls: 1, seconds: 0 });
    const next = keeper.open({ seconds: 0.5 });
    expect(await next.run(nothing).catch(details)).toMatchObject({ reason: 'exec_seconds' });
    expect(keeper.ended).toBe(1);
    keeper.open({ seconds: 0.5 });
    await expect.poll(() => keeper.ended).toBe(2);
  });

  it('counts a call once whose beginning could not be kept', async () => {
    const budget = new Budget(
      {
        settings: { ...daemonSettings, budget: { execs: 0, seconds: 10 } },
        found: () => undefined,
        save: () => Promise.reject(new Error('of the disk')),
      },
      nothing,
    );
    await expect(budget.run(() => delay(20))).rejects.toThrow('of the disk');
    expect(budget.kept()).toMatchObject({ calls: 1, open: [] });
    expect(budget.kept()?.seconds).toBeGreaterThan(0.015);
  });

  it('is not charged to the next use by a call of the one before', async () => {
    const budget = new Keeper().open({ seconds: 0.3 });
    const late = budget.run(() => delay(600));
    budget.reset();
    await late;
    await budget.run(nothing);
  });
});

it('that is off counts nothing and keeps nothing', async () => {
  const keeper = new Keeper();
  const budget = keeper.open({});
  await Promise.all(Array.from({ length: 50 }, () => budget.run(nothing)));
  await budget.reserve();
  expect([keeper.saves, budget.kept()]).toEqual([0, undefined]);
});
