/** Rates of calls that are in flight side by side. */
import { runBare, TRUE } from './bare.ts';
import type { Round } from './comparison.ts';
import { amountOfCalls } from './effort.ts';
import { sandwich } from './rounds.ts';
import type { Effort } from './row.ts';

/** How many calls are in flight in the rows that say so. */
export const IN_FLIGHT = 16;

/** Calls per second of `subjects` beside as many loops that spawn the same file. */
export async function rateBesideSpawn(
  { rounds, scale }: Effort,
  subjects: readonly (() => Promise<void>)[],
): Promise<readonly Round[]> {
  const calls = amountOfCalls(100, scale);
  const baselines = subjects.map(() => async () => await runBare(TRUE));
  await callsPerSecond(subjects, 2);
  await callsPerSecond(baselines, 2);
  return await sandwich(
    rounds,
    async () => await callsPerSecond(subjects, calls),
    async () => await callsPerSecond(baselines, calls),
  );
}

/** Calls per second of several loops side by side, each of `calls` calls. */
async function callsPerSecond(loops: readonly (() => Promise<void>)[], calls: number): Promise<number> {
  const start = performance.now();
  await Promise.all(
    loops.map(async (act) => {
      for (let call = 0; call < calls; call += 1) await act();
    }),
  );
  return (loops.length * calls * 1000) / (performance.now() - start);
}
