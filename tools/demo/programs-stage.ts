/** The first half of the demo: every program in a sandbox of its own, beside the same files run bare. */
import { availableParallelism } from 'node:os';
import type { Effective, SandboxProvider } from '@boxkite/protocol';
import { inParallel } from './parallel.ts';
import type { Program } from './program.ts';
import { prepareBare, runBare } from './run-bare.ts';
import { runSandboxed, type SandboxedRun } from './run-sandboxed.ts';
import type { Screen } from './screen.ts';
import { percentile } from './statistics.ts';

/** Programs at once, on both sides. */
export const WIDTH = 2 * availableParallelism();

/** Both sides run a slice of this many programs in turn, so that a change of the machine's load meets both. */
const SLICE = 10 * WIDTH;

/** What came of all programs. */
export interface ProgramsResult {
  readonly runs: readonly SandboxedRun[];
  readonly sandboxedMs: number;
  readonly bareMs: number;
  readonly barePassed: number;
}

/**
 * Runs all programs both ways, slice by slice, the side that goes first changing each time.
 * @param directory an existing one, for the bare files
 */
export async function runPrograms(
  programs: readonly Program[],
  provider: SandboxProvider,
  directory: string,
  screen: Screen,
  signal: AbortSignal,
): Promise<ProgramsResult> {
  const bare = await prepareBare(programs, directory);
  const progress = new Progress(screen, programs.length);
  const runs: SandboxedRun[] = [];
  let sandboxedMs = 0;
  let bareMs = 0;
  let barePassed = 0;

  const sandboxedSlice = async (from: number): Promise<void> => {
    const start = performance.now();
    const part = await inParallel(programs.slice(from, from + SLICE), WIDTH, async (program) => {
      const run = await runSandboxed(provider, program, {}, signal);
      progress.add(run);
      return run;
    });
    sandboxedMs += performance.now() - start;
    runs.push(...part);
  };
  const bareSlice = async (from: number): Promise<void> => {
    const start = performance.now();
    const part = await inParallel(bare.slice(from, from + SLICE), WIDTH, async (one) => {
      signal.throwIfAborted();
      return await runBare(one);
    });
    bareMs += performance.now() - start;
    barePassed += part.filter(Boolean).length;
  };

  for (let from = 0, turn = 0; from < programs.length; from += SLICE, turn += 1) {
    const order = turn % 2 === 0 ? [sandboxedSlice, bareSlice] : [bareSlice, sandboxedSlice];
    for (const side of order) await side(from);
  }
  screen.endLive();
  return { runs, sandboxedMs, bareMs, barePassed };
}

/** Shows how far it is: a live line on a terminal, else a plain line each time a quarter is done. */
class Progress {
  readonly #screen: Screen;
  readonly #total: number;
  #done = 0;
  #failed = 0;

  constructor(screen: Screen, total: number) {
    this.#screen = screen;
    this.#total = total;
  }

  add(run: SandboxedRun): void {
    this.#done += 1;
    if (!run.passed) this.#failed += 1;
    const width = 30;
    const filled = Math.round((width * this.#done) / this.#total);
    const bar = '#'.repeat(filled) + '.'.repeat(width - filled);
    const text = `${this.#done}/${this.#total} sandboxes, ${this.#failed} failed`;
    const quarter = Math.ceil(this.#total / 4);
    if (this.#screen.isLive) this.#screen.live(`  [${bar}] ${text}  ${run.taskId}`);
    else if (this.#done % quarter === 0 || this.#done === this.#total) this.#screen.line(`  ${text}`);
  }
}

/** Writes the table of a result. */
export function showPrograms(result: ProgramsResult, screen: Screen): void {
  const { runs } = result;
  const failed = runs.filter((run) => !run.passed);
  screen.line();
  screen.table([
    ['passed', screen.paint('green', String(runs.length - failed.length))],
    ['failed', failed.length === 0 ? '0' : screen.paint('red', String(failed.length))],
  ]);
  for (const run of failed) screen.wrapped(`  ${screen.paint('red', 'failed')} ${run.taskId}: ${run.failure}`, 4);
  const times = (name: string, pick: (run: SandboxedRun) => number): readonly string[] => {
    const samples = runs.map(pick);
    return [name, milliseconds(percentile(samples, 0.5)), milliseconds(percentile(samples, 0.95))];
  };
  screen.line();
  screen.table([
    [`${WIDTH} at once`, 'p50', 'p95'],
    times('create', (run) => run.createMs),
    times('first output', (run) => run.firstOutputMs),
    times('destroy', (run) => run.destroyMs),
  ]);
  screen.line();
  screen.table([
    ['sandboxes per second', (runs.length / (result.sandboxedMs / 1000)).toFixed(1)],
    ['all of them, each in its own sandbox', seconds(result.sandboxedMs)],
    [`the same files bare (${result.barePassed} passed)`, seconds(result.bareMs)],
    ['ratio', `${(result.sandboxedMs / result.bareMs).toFixed(2)} x`],
  ]);
}

/** The isolation of all runs, where it was the same in each but for namespaces and host ids. */
export function commonEffective(
  runs: readonly SandboxedRun[],
): { readonly effective: Effective; readonly same: boolean } | undefined {
  const [first, ...others] = runs.map((run) => run.effective);
  if (first === undefined) return undefined;
  const essence = comparable(first);
  return { effective: first, same: others.every((other) => comparable(other) === essence) };
}

function comparable(effective: Effective): string {
  return JSON.stringify({
    ...effective,
    user: { ...effective.user, host_uid: 0 },
    namespaces: Object.keys(effective.namespaces).sort(),
  });
}

function milliseconds(value: number): string {
  return `${value.toFixed(1)} ms`;
}

function seconds(value: number): string {
  return `${(value / 1000).toFixed(2)} s`;
}
