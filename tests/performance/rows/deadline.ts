/** From a deadline to nothing alive, against the kernel's own way to end a pid namespace. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { SandboxPort } from '@boxkite/protocol';
import { countProcesses } from '../../../tools/demo/offender.ts';
import { PYTHON } from '../../../tools/demo/run-sandboxed.ts';
import { need } from '../bare.ts';
import { BareNamespace } from '../bare-namespace.ts';
import { type Comparison, compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, pooled, type Samples } from '../rounds.ts';
import type { Row } from '../row.ts';
import { withSandbox } from '../sandboxes.ts';

/** Long enough for every tree to stand when it is counted, a while before the deadline. */
const DEADLINE_MS = 1500;
const COUNT_AT_MS = 500;
const DAEMONS = 10;
const CAP = 64;

interface Tree {
  readonly name: string;
  readonly what: string;
  readonly file: string;
  readonly args: readonly string[];
  /** Processes that must be there before the end, or it was not the tree that is talked about. */
  readonly atLeast: number;
}

const TREES: readonly Tree[] = [
  {
    name: 'deadline-daemons',
    what: `${DAEMONS} daemons that ignore TERM`,
    file: 'daemons.py',
    args: [String(DAEMONS)],
    atLeast: DAEMONS,
  },
  { name: 'deadline-bomb', what: `a fork bomb at its cap of ${CAP}`, file: 'fork-bomb.py', args: [], atLeast: CAP - 8 },
];

/** One row per tree. */
export const deadlines: readonly Row[] = TREES.map((tree) => ({
  name: tree.name,
  source: 'tests/performance/rows/deadline.ts',
  what: `deadline to nothing alive: ${tree.what}`,
  baseline: 'SIGKILL of a bare pid namespace with the same tree, to empty',
  run: async ({ rounds, scale }): Promise<readonly Comparison[]> => {
    need('/usr/bin/unshare', 'apt-get install util-linux');
    const source = await readFile(new URL(`../programs/${tree.file}`, import.meta.url), 'utf8');
    return await withSandbox({ pids: CAP }, async (sandbox) => {
      const all: Samples[] = [];
      for (let round = 0; round < rounds; round += 1) {
        const samples = { subject: [] as number[], baseline: [[] as number[], [] as number[]] as const };
        for (let call = 0; call < amountOfCalls(4, scale); call += 1) {
          const argv = (marker: string): readonly string[] => [PYTHON, '-c', source, ...tree.args, marker];
          samples.baseline[call % 2 === 0 ? 0 : 1].push(await endBare(argv, tree));
          samples.subject.push(await endInside(sandbox, argv, tree));
        }
        all.push(samples);
      }
      return [
        compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 2 }, atPercentile(all, 0.5)),
        compare({ name: 'max', unit: 'ms', better: 'lower', promise: 5 }, atPercentile([pooled(all)], 1)),
      ];
    });
  },
}));

/** ms from the deadline to the report, after which nothing may be alive. */
async function endInside(
  sandbox: SandboxPort,
  argv: (marker: string) => readonly string[],
  tree: Tree,
): Promise<number> {
  const marker = `boxkite-bench-${randomUUID()}`;
  const handle = await sandbox.exec({ argv: argv(marker), timeout_ms: DEADLINE_MS });
  const started = performance.now();
  const look = countAfter(marker);
  for await (const event of handle) {
    if (event.type !== 'ended') continue;
    const here = performance.now() - started;
    if (event.record.end !== 'timed_out') throw new TypeError(`the command ended as ${event.record.end}`);
    const alive = await countProcesses(marker);
    if (alive !== 0) throw new TypeError(`${alive} processes were alive after the end was reported`);
    const seen = await look;
    if (seen < tree.atLeast) throw new TypeError(`only ${seen} processes stood inside before the deadline`);
    // The runner's own clock starts at the command's release, ours at the answer: the longer of the two counts.
    return Math.max(here, event.record.duration_ms) - DEADLINE_MS;
  }
  throw new TypeError('the events of an exec end with its record');
}

/** ms from SIGKILL of the namespace's PID 1 until the kernel has emptied it. */
async function endBare(argv: (marker: string) => readonly string[], tree: Tree): Promise<number> {
  const marker = `boxkite-bench-${randomUUID()}`;
  await using namespace = await BareNamespace.start(argv(marker), CAP);
  const seen = await countAfter(marker);
  if (seen < tree.atLeast) throw new TypeError(`only ${seen} processes stood in the bare namespace`);
  await new Promise((resolve) => setTimeout(resolve, DEADLINE_MS - COUNT_AT_MS));
  return await namespace.end();
}

async function countAfter(marker: string): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, COUNT_AT_MS));
  return await countProcesses(marker);
}
