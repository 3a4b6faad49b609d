/** A thousand sandboxes that do nothing. */
import { readFileSync, writeFileSync } from 'node:fs';
import type { TestDaemon } from '@boxkite/testing';
import type { Sandbox } from 'boxkite';
import { median } from '../../../tools/demo/statistics.ts';
import { amount, compare } from '../comparison.ts';
import { withDaemon } from '../daemons.ts';
import { timed } from '../rounds.ts';
import { MissingPrerequisite, type Row } from '../row.ts';

const COUNT = 1000;
const EDGE = 100;
const IDLE_SECONDS = 2;
/** Envelopes and file agents end within this time of their last use: a connection for files is kept for ten seconds. */
const SETTLE_MS = (IDLE_SECONDS + 16) * 1000;

const LOOK_MS = 2000;
const MOST_LOOKS = 20;
/** 2 KB for each of a thousand sandboxes. */
const SETTLED_BYTES = 2_000_000;

/** Memory of kernel and daemon for each, of Node, and how the time of a create grows. */
export const daemonMany: Row = {
  name: 'v1-many',
  source: 'tests/performance/rows/daemon-many.ts',
  what: `${COUNT} idle sandboxes`,
  baseline: 'the first 100 of them',
  run: async ({ scale }) => {
    if (process.getuid?.() !== 0)
      throw new MissingPrerequisite('page caches can be dropped by root only', 'sudo make bench');
    const count = Math.max(2 * EDGE, Math.round(COUNT * scale));
    return await withDaemon(
      async (daemon, create) => {
        // What the first sandbox alone needs is the daemon's.
        await (await create()).destroy();
        const before = await settledBytes(daemon);
        const times: number[] = [];
        const all: Sandbox[] = [];
        for (let made = 0; made < count; made += 1) {
          times.push(
            await timed(async () => {
              all.push(await create());
            }),
          );
        }
        for (const sandbox of all) await sandbox.files.write('used', 'x');
        await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
        const each = ((await settledBytes(daemon)) - before) / count / 1000;
        const node = residentBytes(daemon.nodePid()) / 1e6;
        const half = EDGE / 2;
        const growth = {
          subject: median(times.slice(-EDGE)),
          baseline: [median(times.slice(0, half)), median(times.slice(half, EDGE))] as const,
        };
        return [
          amount({ name: 'memory of each', unit: 'KB', better: 'lower', promise: 400, stretch: 200 }, [each]),
          amount({ name: 'Node', unit: 'MB', better: 'lower', promise: 250 }, [node]),
          compare({ name: 'last 100 creates', unit: 'ms', better: 'lower', promise: 1.5 }, [growth]),
        ];
      },
      { args: ['--idle-seconds', String(IDLE_SECONDS), '--max-sandboxes', String(count + 1)] },
    );
  },
};

/**
 * What the kernel and the daemon's three processes hold, files left out. By kind, since what is free on a whole machine
 * changes by what others leave and take.
 */
function heldBytes(daemon: TestDaemon): number {
  const kernel = ['Slab', 'Percpu', 'PageTables', 'KernelStack'].map((name) => field('/proc/meminfo', name));
  const processes = [daemon.pid, daemon.supervisePid(), daemon.nodePid()].map(residentBytes);
  return [...kernel, ...processes].reduce((sum, bytes) => sum + bytes, 0);
}

/** The same once it stays: the kernel gives back what an earlier row has used some seconds later. */
async function settledBytes(daemon: TestDaemon): Promise<number> {
  for (let look = 0, last = 0; ; look += 1) {
    writeFileSync('/proc/sys/vm/drop_caches', '3');
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    const now = heldBytes(daemon);
    if (Math.abs(now - last) < SETTLED_BYTES || look === MOST_LOOKS) return now;
    last = now;
  }
}

function residentBytes(pid: number): number {
  return field(`/proc/${pid}/status`, 'VmRSS');
}

function field(path: string, name: string): number {
  const kibibytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(path, 'utf8'))?.[1];
  if (kibibytes === undefined) throw new TypeError(`${path} has no ${name}`);
  return Number(kibibytes) * 1024;
}
