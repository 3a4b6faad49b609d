/** The same commands by the SDK through the daemon's `/v1`. */
import type { Sandbox } from 'boxkite';
import { need, runBare, TRUE } from '../bare.ts';
import { compare, type Metric } from '../comparison.ts';
import { withDaemon } from '../daemons.ts';
import { amountOfCalls } from '../effort.ts';
import { IN_FLIGHT, rateBesideSpawn } from '../rate.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';

const BWRAP = '/usr/bin/bwrap';
const SOURCE = 'tests/performance/rows/daemon.ts';
const P50: Metric = { name: 'p50', unit: 'ms', better: 'lower', promise: 2.5, stretch: 1.5 };

/** One command that does nothing. */
export async function runTrue(sandbox: Sandbox): Promise<void> {
  const { ok, end } = await sandbox.exec([TRUE]);
  if (!ok) throw new TypeError(`true ended as ${end}`);
}

/** One command after another. */
export const daemonExec: Row = {
  name: 'v1-exec',
  source: SOURCE,
  what: 'exec of true by the SDK through /v1',
  baseline: 'child_process.spawn of the same file',
  run: async ({ rounds, scale }) =>
    await withDaemon(async (_daemon, create) => {
      const sandbox = await create();
      const subject = async (): Promise<void> => await runTrue(sandbox);
      const samples = await callByCall(rounds, amountOfCalls(200, scale), subject, async () => await runBare(TRUE));
      return [compare(P50, atPercentile(samples, 0.5))];
    }),
};

/** Sixteen in flight, one sandbox each. */
export const daemonInFlight: Row = {
  name: 'v1-in-flight',
  source: SOURCE,
  what: `execs per second by the SDK through /v1, ${IN_FLIGHT} in flight, one sandbox each`,
  baseline: `child_process.spawn of the same file, ${IN_FLIGHT} in flight`,
  run: async (effort) =>
    await withDaemon(async (_daemon, create) => {
      const sandboxes = await Promise.all(Array.from({ length: IN_FLIGHT }, async () => await create()));
      const measured = await rateBesideSpawn(
        effort,
        sandboxes.map((sandbox) => async () => await runTrue(sandbox)),
      );
      return [compare({ name: 'rate', unit: 'per s', better: 'higher', promise: 0.5, stretch: 0.8 }, measured)];
    }),
};

/** A whole life through the daemon. */
export const daemonLife: Row = {
  name: 'v1-life',
  source: SOURCE,
  what: 'create + exec true + destroy by the SDK through /v1',
  baseline: 'bwrap --unshare-all of the same file',
  run: async ({ rounds, scale }) => {
    need(BWRAP, 'apt-get install bubblewrap');
    const bwrap = ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', TRUE];
    return await withDaemon(async (_daemon, create) => {
      const subject = async (): Promise<void> => {
        await using sandbox = await create();
        await runTrue(sandbox);
      };
      const baseline = async (): Promise<void> => await runBare(BWRAP, bwrap);
      const samples = await callByCall(rounds, amountOfCalls(100, scale), subject, baseline);
      return [
        compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 4, stretch: 2 }, atPercentile(samples, 0.5)),
      ];
    });
  },
};
