/** The death of Node, as a client sees it. */
import { median } from '../../../tools/demo/statistics.ts';
import { compare } from '../comparison.ts';
import { withDaemon } from '../daemons.ts';
import { amountOfCalls } from '../effort.ts';
import { sandwich, timed } from '../rounds.ts';
import type { Row } from '../row.ts';
import { runTrue } from './daemon.ts';

/** From kill -9 of Node to the answer of an exec sent at once, against the same restart with nothing to find again. */
export const daemonRestart: Row = {
  name: 'v1-restart',
  source: 'tests/performance/rows/daemon-restart.ts',
  what: 'kill -9 of Node to the answer of an exec that is sent within 100 ms',
  baseline: 'kill -9 of the Node of a daemon without sandboxes to its first answer, that of GET /health',
  run: async ({ rounds, scale }) => {
    const calls = amountOfCalls(3, scale);
    const measured = await sandwich(
      rounds,
      async () => await medianOf(calls, msToExec),
      async () => await medianOf(calls, msToHealth),
    );
    return [compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 1.5 }, measured)];
  },
};

/** Each time in a daemon of its own: before another start of a Node that dies again within ten seconds there is a pause. */
async function medianOf(calls: number, measure: () => Promise<number>): Promise<number> {
  const times: number[] = [];
  for (let call = 0; call < calls; call += 1) times.push(await measure());
  return median(times);
}

async function msToExec(): Promise<number> {
  return await withDaemon(async (daemon, create) => {
    const sandbox = await create();
    await runTrue(sandbox);
    return await timed(async () => {
      await daemon.killNode();
      await runTrue(sandbox);
    });
  });
}

async function msToHealth(): Promise<number> {
  return await withDaemon(async (daemon) =>
    timed(async () => {
      await daemon.killNode();
      const { status } = await daemon.call('GET', '/health', { key: null });
      if (status !== 200) throw new TypeError(`the daemon answers ${status}`);
    }),
  );
}
