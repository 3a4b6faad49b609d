import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  findDaemon,
  isAlive,
  lockHolder,
  RECORD_NAME,
  runDirectory,
  startTicks,
} from '../../src/serve/daemon-record.ts';
import { removeDeadRuns } from '../../src/serve/directories.ts';
import type { DaemonPlaces } from '../../src/serve/places.ts';
import { daemonPlaces } from '../../src/serve/places.ts';

let base = '';
let places: DaemonPlaces;
const children: ChildProcess[] = [];

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-record-'));
  places = daemonPlaces({ uid: 1, home: base, stateHome: base, temporaryDirectory: base });
  mkdirSync(places.state, { recursive: true });
});
afterEach(async () => {
  for (const child of children.splice(0)) await end(child);
  rmSync(base, { recursive: true, force: true });
});

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** A process that holds the lock of a directory, by default that of the data, and was given `named`, as a runner is. */
async function holder(named: string, option = '--state', directory = places.state): Promise<ChildProcess> {
  mkdirSync(directory, { recursive: true });
  const script =
    'import fcntl, sys, time\nf = open(sys.argv[1], "w")\nfcntl.flock(f, fcntl.LOCK_EX)\nprint(1, flush=True)\ntime.sleep(60)';
  const child = spawn('python3', ['-c', script, join(directory, 'lock'), option, named], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  await once(child.stdout ?? child, 'data');
  return child;
}

function writeRecord(pid: number, ticks: string | null): string {
  const run = runDirectory(places.runtime, pid);
  mkdirSync(run, { recursive: true });
  writeFileSync(join(run, RECORD_NAME), JSON.stringify({ pid, start_ticks: ticks, instance: 'of the test' }));
  return run;
}

test('a process is told by its start, not by its id alone', async () => {
  const child = spawn('sleep', ['60']);
  children.push(child);
  await once(child, 'spawn');
  const pid = child.pid ?? 0;
  const ticks = startTicks(pid) ?? '';
  expect(ticks).toMatch(/^\d+$/);
  expect(isAlive({ pid, start_ticks: ticks })).toBe(true);
  expect(isAlive({ pid, start_ticks: String(Number(ticks) - 1) })).toBe(false);
  await end(child);
  expect(startTicks(pid)).toBeNull();
  expect(isAlive({ pid, start_ticks: ticks })).toBe(false);
});

describe('the daemon of a data directory', () => {
  test('is nobody where there is no lock, or nobody holds it', () => {
    expect(lockHolder(places)).toBeNull();
    writeFileSync(join(places.state, 'lock'), '');
    expect(lockHolder(places)).toBeNull();
    writeRecord(process.pid, startTicks(process.pid));
    expect(findDaemon(places)).toBeNull();
  });

  test('is who holds the lock, until it ends', async () => {
    const child = await holder(places.state);
    const pid = child.pid ?? 0;
    expect(findDaemon(places)).toEqual({ pid, record: null });
    writeRecord(pid, startTicks(pid));
    expect(findDaemon(places)).toMatchObject({ pid, record: { instance: 'of the test' } });
    await end(child);
    expect(findDaemon(places)).toBeNull();
  });

  test('is none that was given another directory', async () => {
    await holder(`${places.state}x`);
    expect(lockHolder(places)).toBeNull();
  });

  test.runIf(process.getuid?.() === 0)('is none of another user, whatever it locks and was given', async () => {
    const child = await holder(places.state);
    expect(lockHolder(places)).toBe(child.pid);
    chownSync(places.state, 4_000_000, 4_000_000);
    expect(lockHolder(places)).toBeNull();
  });

  test('is told by its own directory where its data was removed, and is none of the data that came after', async () => {
    const child = await holder(places.runner, '--dir', places.runner);
    const pid = child.pid ?? 0;
    rmSync(places.data, { recursive: true });
    expect(findDaemon(places)).toEqual({ pid, record: null });
    mkdirSync(places.state, { recursive: true });
    writeFileSync(join(places.state, 'lock'), '');
    expect(findDaemon(places)).toEqual({ pid, record: null });
    await end(child);
    expect(findDaemon(places)).toBeNull();
  });

  test('has no record of another start of its process id', async () => {
    const { pid = 0 } = await holder(places.state);
    writeRecord(pid, '1');
    expect(findDaemon(places)).toEqual({ pid, record: null });
  });
});

test('what a run has left that ended is removed, and of one that runs nothing', async () => {
  const { pid = 0 } = await holder(places.state);
  const live = writeRecord(pid, startTicks(pid));
  const reused = writeRecord(process.ppid, '1');
  const gone = writeRecord(2 ** 22 + 1, '1');
  const starting = runDirectory(places.runtime, 1);
  mkdirSync(starting);
  removeDeadRuns(places.runtime);
  expect([live, reused, gone, starting].map((path) => existsSync(path))).toEqual([true, false, false, true]);
});
