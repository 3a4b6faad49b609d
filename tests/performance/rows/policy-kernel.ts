/** What a list of programs that the kernel enforces costs. */
import { TRUE } from '../bare.ts';
import { compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';
import { runInside, withRunner } from '../sandboxes.ts';

/** An interpreter with all its modules, and some programs: the longest list of mounts that is usual. */
const programs = { programs: ['true', 'python3', 'ls', 'cat', 'grep', 'find', 'sed', 'head', 'tail', 'sort'] };

export const policyKernel: Row = {
  name: 'policy-kernel',
  source: 'tests/performance/rows/policy-kernel.ts',
  what: 'exec of true under a list of programs in the kernel, in a kept envelope; in one of its own; a sandbox from open to close',
  baseline: 'the same without a list',
  run: async ({ rounds, scale }) =>
    await withRunner(0, async (_, runner) => {
      const calls = amountOfCalls(200, scale);
      const measure = async (fresh: boolean) => {
        await using listed = await runner.create({ programs, fresh });
        await using free = await runner.create({ fresh });
        const exec = async (sandbox: typeof free): Promise<void> => {
          await runInside(sandbox, { argv: [TRUE] });
        };
        const samples = await callByCall(
          rounds,
          fresh ? calls / 4 : calls,
          async () => await exec(listed),
          async () => await exec(free),
        );
        return atPercentile(samples, 0.5);
      };
      const life = async (): Promise<void> => await (await runner.create()).destroy();
      const listedLife = async (): Promise<void> => await (await runner.create({ programs })).destroy();
      return [
        compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 1.3, stretch: 1.1 }, await measure(false)),
        compare({ name: 'p50, own', unit: 'ms', better: 'lower', promise: 2, stretch: 1.3 }, await measure(true)),
        compare(
          { name: 'p50, life', unit: 'ms', better: 'lower', promise: 4, stretch: 2 },
          atPercentile(await callByCall(rounds, calls / 4, listedLife, life), 0.5),
        ),
      ];
    }),
};
