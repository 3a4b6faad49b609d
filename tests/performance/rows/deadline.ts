/** From a deadline to nothing alive, against the kernel's own way to end a pid namespace. */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { constants, getPriority, setPriority } from 'node:os';
import type { SandboxPort } from '@boxkite/protocol';
import { PYTHON } from '../../../tools/demo/run-sandboxed.ts';
import { need } from '../bare.ts';
import { BareNamespace } from '../bare-namespace.ts';
import { type Comparison, compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, pooled, type Samples } from '../rounds.ts';
import type { Row } from '../row.ts';
import { withSandbox } from '../sandboxes.ts';

/** The count takes time of its own, and must be over before the deadline. */
const COUNT_BEFORE_MS = 500;
const DAEMONS = 10;
const CAP = 64;

interface Tree {
  readonly name: string;
  readonly what: string;
  readonly file: string;
  readonly args: readonly string[];
  /** Processes that must be there before the end, or it was not the tree that is talked about. */
  readonly atLeast: number;
  /** Long enough for the tree to stand when it is counted: a bomb's processes share the processors that they fork with. */
  readonly deadlineMs: number;
}

const TREES: readonly Tree[] = [
  {
    name: 'deadline-daemons',
    what: `${DAEMONS} daemons that ignore TERM`,
    file: 'daemons.py',
    args: [String(DAEMONS)],
    atLeast: DAEMONS,
    deadlineMs: 1000,
  },
  {
    name: 'deadline-bomb',
    what: `a fork bomb at its cap of ${CAP}`,
    file: 'fork-bomb.py',
    args: [],
    atLeast: CAP - 8,
    deadlineMs: 4000,
  },
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

/** A name for the processes of one tree: the kernel keeps 15 bytes of it. */
function newName(): string {
  return `bench-${randomUUID().slice(0, 8)}`;
}

/** ms from the deadline to the report, after which nothing may be alive. */
async function endInside(
  sandbox: SandboxPort,
  argv: (marker: string) => readonly string[],
  tree: Tree,
): Promise<number> {
  const marker = newName();
  const handle = await sandbox.exec({ argv: argv(marker), timeout_ms: tree.deadlineMs });
  const started = performance.now();
  const look = countAt(marker, tree.deadlineMs - COUNT_BEFORE_MS);
  for await (const event of handle) {
    if (event.type !== 'ended') continue;
    const here = performance.now() - started;
    if (event.record.end !== 'timed_out') throw new TypeError(`the command ended as ${event.record.end}`);
    const alive = countNow(marker);
    if (alive !== 0) throw new TypeError(`${alive} processes were alive after the end was reported`);
    const seen = await look;
    if (seen < tree.atLeast) throw new TypeError(`only ${seen} processes stood inside before the deadline`);
    // The runner's own clock starts at the command's release, ours at the answer: the longer of the two counts.
    return Math.max(here, event.record.duration_ms) - tree.deadlineMs;
  }
  throw new TypeError('the events of an exec end with its record');
}

/** ms from SIGKILL of the namespace's PID 1 until the kernel has emptied it. */
async function endBare(argv: (marker: string) => readonly string[], tree: Tree): Promise<number> {
  const marker = newName();
  await using namespace = await BareNamespace.start(argv(marker), CAP);
  const seen = await countAt(marker, tree.deadlineMs - COUNT_BEFORE_MS);
  if (seen < tree.atLeast) throw new TypeError(`only ${seen} processes stood in the bare namespace`);
  await new Promise((resolve) => setTimeout(resolve, COUNT_BEFORE_MS));
  return await namespace.end();
}

/**
 * Counted at a high priority, where it may be had: beside a bomb the count would starve. And by the name in `stat`:
 * `cmdline` waits for a lock that a forking process holds while it starves itself, so that a count by it sees the end.
 */
async function countAt(marker: string, ms: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, ms));
  const before = getPriority();
  try {
    if (process.getuid?.() === 0) setPriority(constants.priority.PRIORITY_HIGHEST);
    return countNow(marker);
  } finally {
    if (process.getuid?.() === 0) setPriority(before);
  }
}

/** Processes of this machine with this name that are alive. */
function countNow(marker: string): number {
  return readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && isAlive(entry, marker)).length;
}

function isAlive(pid: string, name: string): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.includes(`(${name})`) && !stat.includes(`(${name}) Z`);
  } catch {
    // It has ended since the listing, in one of several ways to say so.
    return false;
  }
}
