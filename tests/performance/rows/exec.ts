/** One command in a sandbox that is there, and sixteen at once. */

import { runBare, TRUE } from '../bare.ts';
import { compare, type Metric } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { IN_FLIGHT, rateBesideSpawn } from '../rate.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';
import { runInside, withRunner } from '../sandboxes.ts';

const P50_ROOT: Metric = { name: 'p50', unit: 'ms', better: 'lower', promise: 1, stretch: 0.7 };
const P50_USER: Metric = { ...P50_ROOT, promise: 2.5, stretch: 1.2 };
const P95_ROOT: Metric = { name: 'p95', unit: 'ms', better: 'lower', promise: 1.3 };
const RATE: Metric = { name: 'rate', unit: 'per s', better: 'higher', promise: 0.6, stretch: 0.8 };

/** At the runner's socket; `asRoot` chooses which promise holds. */
export function execRow(asRoot: boolean): Row {
  return {
    name: asRoot ? 'exec' : 'exec-user',
    source: 'tests/performance/rows/exec.ts',
    what: `exec of true at the runner's socket, kept envelope, ${asRoot ? 'started by root' : 'started by an ordinary user'}`,
    baseline: 'child_process.spawn of the same file',
    run: async ({ rounds, scale }) =>
      await withRunner(1, async ([sandbox]) => {
        if (sandbox === undefined) throw new TypeError('one sandbox was asked for');
        const subject = async (): Promise<void> => {
          await runInside(sandbox, { argv: [TRUE] });
        };
        const samples = await callByCall(rounds, amountOfCalls(200, scale), subject, async () => await runBare(TRUE));
        const p50 = compare(asRoot ? P50_ROOT : P50_USER, atPercentile(samples, 0.5));
        return asRoot ? [p50, compare(P95_ROOT, atPercentile(samples, 0.95))] : [p50];
      }),
  };
}

/** Sixteen in flight, one sandbox each. */
export const execsInFlight: Row = {
  name: 'execs-in-flight',
  source: 'tests/performance/rows/exec.ts',
  what: `execs per second, ${IN_FLIGHT} in flight, one sandbox each`,
  baseline: `child_process.spawn of the same file, ${IN_FLIGHT} in flight`,
  run: async (effort) =>
    await withRunner(IN_FLIGHT, async (sandboxes) => {
      const subjects = sandboxes.map((sandbox) => async () => {
        await runInside(sandbox, { argv: [TRUE] });
      });
      return [compare(RATE, await rateBesideSpawn(effort, subjects))];
    }),
};
