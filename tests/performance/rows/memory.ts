/** Memory while output flows, and while its reader stands still. */
import { readFile } from 'node:fs/promises';
import type { ExecHandle } from '@boxkite/protocol';
import { median } from '../../../tools/demo/statistics.ts';
import { amount, type Metric } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { BLOCK_BYTES, buildBlock, PatternCheck } from '../pattern.ts';
import type { Row } from '../row.ts';
import { withRunner } from '../sandboxes.ts';
import { producer } from './output.ts';

const STALL_MS = 4000;
const SAMPLE_MS = 40;

/** What flows before memory counts as settled: buffers and heap have then reached their working size. */
const WARM_BYTES = 256 * 1024 * 1024;

/** Farthest from the median, in MB, of the runner's and of Node's resident memory. */
export const outputMemory: Row = {
  name: 'output-memory',
  source: 'tests/performance/rows/memory.ts',
  what: 'memory while 1 GiB of output flows and while its reader stalls',
  baseline: 'itself: how far it strays from its median',
  run: async ({ scale }) => {
    const blocks = amountOfCalls(1025, scale);
    const argv = await producer(blocks, []);
    return await withRunner(1, async ([sandbox], runner) => {
      if (sandbox === undefined) throw new TypeError('one sandbox was asked for');
      const flowing = new MemorySampler(runner.pid);
      const check = new PatternCheck(buildBlock([]));
      const handle = await sandbox.exec({ argv, overflow: 'block' });
      const stalled = await drain(handle, check, flowing, runner.pid, (blocks * BLOCK_BYTES) / 2);
      check.finish(blocks);
      flowing.stop();
      return [
        amount(promised('runner, flowing'), flowing.deviations('runner')),
        amount(promised('Node, flowing'), flowing.deviations('node')),
        amount(promised('runner, stalled'), stalled.deviations('runner')),
        amount(promised('Node, stalled'), stalled.deviations('node')),
      ];
    });
  },
};

function promised(name: string): Metric {
  return { name, unit: 'MB', better: 'lower', promise: 20 };
}

/** Reads to the end, once standing still on the way. Gives the samples of the stall. */
async function drain(
  handle: ExecHandle,
  check: PatternCheck,
  flowing: MemorySampler,
  pid: number,
  stallAt: number,
): Promise<MemorySampler> {
  let stalled: MemorySampler | undefined;
  for await (const event of handle) {
    if (event.type !== 'output' || event.stream !== 'stdout') continue;
    check.push(event.data);
    if (check.total > Math.min(WARM_BYTES, stallAt / 2)) flowing.start();
    if (stalled === undefined && check.total >= stallAt) {
      flowing.pause();
      stalled = new MemorySampler(pid);
      stalled.start();
      await new Promise((resolve) => setTimeout(resolve, STALL_MS));
      stalled.stop();
    }
  }
  if (stalled === undefined) throw new TypeError('the output ended before the reader stalled');
  return stalled;
}

/** Samples resident memory of the runner and of this process. */
class MemorySampler {
  readonly #runnerPid: number;
  readonly #samples: { readonly runner: number[]; readonly node: number[] } = { runner: [], node: [] };
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(runnerPid: number) {
    this.#runnerPid = runnerPid;
  }

  /** Idempotent while it runs. */
  start(): void {
    if (this.#stopped) return;
    this.#timer ??= setInterval(() => {
      void this.#sample();
    }, SAMPLE_MS);
  }

  pause(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  stop(): void {
    this.#stopped = true;
    this.pause();
  }

  /** Distances from the median, in MB. */
  deviations(of: 'runner' | 'node'): readonly number[] {
    const samples = this.#samples[of];
    const middle = median(samples);
    return samples.map((bytes) => Math.abs(bytes - middle) / 1e6);
  }

  async #sample(): Promise<void> {
    this.#samples.node.push(process.memoryUsage.rss());
    const status = await readFile(`/proc/${this.#runnerPid}/status`, 'utf8').catch((error: unknown) => {
      // The last sample may fall together with the runner's end.
      if (this.#stopped) return '';
      throw error;
    });
    const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
    if (kibibytes !== undefined) this.#samples.runner.push(Number(kibibytes) * 1024);
  }
}
