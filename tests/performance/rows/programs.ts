/** The 164 programs of the demo. */
import { mkdtemp, rm } from 'node:fs/promises';
import { loadHumanEval } from '../../../tools/demo/dataset.ts';
import { inParallel } from '../../../tools/demo/parallel.ts';
import { parseProblems } from '../../../tools/demo/problems.ts';
import { buildProgram, STANDARD_LIBRARY_ALONE } from '../../../tools/demo/program.ts';
import { WIDTH } from '../../../tools/demo/programs-stage.ts';
import { prepareBare, runBare } from '../../../tools/demo/run-bare.ts';
import { PYTHON, runSandboxed } from '../../../tools/demo/run-sandboxed.ts';
import { need } from '../bare.ts';
import { compare } from '../comparison.ts';
import { sandwich } from '../rounds.ts';
import type { Row } from '../row.ts';
import { withProvider } from '../sandboxes.ts';

/** Every program in a fresh sandbox, against the same files bare at the same parallelism. */
export const programs: Row = {
  name: 'programs',
  source: 'tests/performance/rows/programs.ts',
  what: `the 164 HumanEval programs, each in a fresh sandbox, ${WIDTH} at once`,
  baseline: `the same files by ${PYTHON} with the same options, ${WIDTH} at once`,
  run: async ({ rounds, scale, cacheDirectory }) => {
    need(PYTHON, 'apt-get install python3');
    const text = await loadHumanEval(cacheDirectory, (line) => process.stderr.write(`${line}\n`));
    const { problems } = parseProblems(text);
    const all = problems
      .slice(0, Math.ceil(problems.length * Math.min(1, scale)))
      .map((problem) => buildProgram(problem, problem.entry_point, STANDARD_LIBRARY_ALONE));
    const directory = await mkdtemp('/dev/shm/boxkite-bench-');
    try {
      const files = await prepareBare(all, directory);
      return await withProvider(async (provider) => {
        const { signal } = new AbortController();
        const subject = async (): Promise<number> =>
          await wall(
            async () =>
              await inParallel(all, WIDTH, async (one) => (await runSandboxed(provider, one, {}, signal)).passed),
          );
        const baseline = async (): Promise<number> => await wall(async () => await inParallel(files, WIDTH, runBare));
        return [
          compare(
            { name: 'wall time', unit: 's', better: 'lower', promise: 1.5, stretch: 1.15 },
            await sandwich(rounds, subject, baseline),
          ),
        ];
      });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
};

/** Seconds of a side in which every program passed. */
async function wall(act: () => Promise<readonly boolean[]>): Promise<number> {
  const start = performance.now();
  const passed = await act();
  const seconds = (performance.now() - start) / 1000;
  if (!passed.every(Boolean)) throw new TypeError(`${passed.filter((one) => !one).length} programs failed`);
  return seconds;
}
