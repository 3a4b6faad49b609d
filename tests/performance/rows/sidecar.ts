/** Commands by `POST /exec` of `boxkite sidecar`. */
import { runBare, TRUE } from '../bare.ts';
import { compare, type Metric } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { IN_FLIGHT, rateBesideSpawn } from '../rate.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';
import { connectionTo, type SidecarConnection, withSidecar } from '../sidecars.ts';

const SOURCE = 'tests/performance/rows/sidecar.ts';
const P50: Metric = { name: 'p50', unit: 'ms', better: 'lower', promise: 1.8, stretch: 1.2 };

async function runTrue(connection: SidecarConnection): Promise<void> {
  const answer = JSON.parse((await connection.call('POST', '/exec', { command: TRUE })).toString()) as {
    readonly exit_code: number;
  };
  if (answer.exit_code !== 0) throw new TypeError(`true ended with ${answer.exit_code}`);
}

/** One command after another. */
export const sidecarExec: Row = {
  name: 'sidecar-exec',
  source: SOURCE,
  what: 'POST /exec of true, keep-alive, one after another',
  baseline: 'child_process.spawn of the same file',
  run: async ({ rounds, scale }) =>
    await withSidecar(async (sidecar) => {
      using connection = connectionTo(sidecar);
      const subject = async (): Promise<void> => await runTrue(connection);
      const samples = await callByCall(rounds, amountOfCalls(200, scale), subject, async () => await runBare(TRUE));
      return [compare(P50, atPercentile(samples, 0.5))];
    }),
};

/** Sixteen in flight, in the one sandbox. */
export const sidecarInFlight: Row = {
  name: 'sidecar-in-flight',
  source: SOURCE,
  what: `POST /exec of true per second, ${IN_FLIGHT} in flight`,
  baseline: `child_process.spawn of the same file, ${IN_FLIGHT} in flight`,
  run: async (effort) =>
    await withSidecar(async (sidecar) => {
      const connections = Array.from({ length: IN_FLIGHT }, () => connectionTo(sidecar));
      try {
        const measured = await rateBesideSpawn(
          effort,
          connections.map((connection) => async () => await runTrue(connection)),
        );
        return [compare({ name: 'rate', unit: 'per s', better: 'higher', promise: 0.5, stretch: 0.8 }, measured)];
      } finally {
        for (const connection of connections) connection[Symbol.dispose]();
      }
    }),
};
