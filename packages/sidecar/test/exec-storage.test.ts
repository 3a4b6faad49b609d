import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { effective, record } from '../../protocol/test/values.ts';
import { ExecLog } from '../src/records/exec-log.ts';
import { ExecStorage } from '../src/records/exec-storage.ts';
import { type Holder, Journal } from '../src/records/journal.ts';
import { LogBudget } from '../src/records/log-budget.ts';
import type { StartMeta } from '../src/records/meta.ts';
import { RawStream } from '../src/records/raw-stream.ts';
import { RecordStore } from '../src/records/record-store.ts';
import { StreamLog } from '../src/records/stream-log.ts';
import { KnownSecrets } from '../src/session/known-secrets.ts';

/** Writes wait while there is one. */
const disk = vi.hoisted(() => ({ held: null as Promise<void> | null, waiting: 0 }));

vi.mock('../src/records/disk.ts', async (original) => {
  const real = await original<typeof import('../src/records/disk.ts')>();
  return {
    ...real,
    writeAt: async (fd: number, pieces: readonly Uint8Array[], position: number) => {
      disk.waiting += 1;
      await disk.held;
      disk.waiting -= 1;
      await real.writeAt(fd, pieces, position);
    },
  };
});

const WINDOW = { head: 100_000, tail: 100_000 };
const META: StartMeta = {
  sequence: 1,
  exec_id: 'e1',
  instance: 'a',
  runner_exec: '1',
  argv: ['true'],
  cwd: '/',
  tty: false,
  started_at: new Date().toISOString(),
  deadline: null,
  block: false,
  window: WINDOW,
  known: null,
};

let directory: string;
let journal: Journal;
let storage: ExecStorage;
let log: ExecLog;

beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'boxkite-storage-')), 'records');
  open({ segment: 1 });
});

afterEach(async () => {
  await journal.close();
  await rm(join(directory, '..'), { recursive: true });
});

/** Each write has a segment of its own where one byte fills it. What is alive is moved when as much is dead. */
function open({ segment }: { readonly segment: number }): void {
  journal = new Journal(directory, { segment, dead: 0 });
  log = new ExecLog(new StreamLog(WINDOW), new StreamLog(WINDOW));
  const shelf = { directory, journal, budget: new LogBudget(1000, new RecordStore()) };
  storage = new ExecStorage(shelf, META, log, effective);
}

/** Holds the writes from now on. */
function hold(): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  disk.held = promise;
  return () => {
    disk.held = null;
    resolve();
  };
}

/** Something else in the journal, until it is let go of. */
async function filler(bytes: number): Promise<() => void> {
  const holder: Holder = { rewrite: () => Promise.resolve(null), moved: () => undefined };
  const stdout = [Buffer.alloc(bytes, 'filler')];
  const place = await journal.append({ kind: 'end', meta: 'filler', effective: '{}', stdout, stderr: [] }, holder);
  // After it the journal looks at what lives.
  await turn();
  return () => journal.drop(holder, place);
}

function finish(output: string): Promise<void> {
  const raw = new RawStream(new KnownSecrets().none.known);
  log.append('stdout', Buffer.from(output));
  log.end(record);
  return storage.finish(record, () => raw.position());
}

async function reads(output: string): Promise<void> {
  const read = await storage.bytesOf('stdout').read(0, output.length);
  expect(Buffer.from(read).toString()).toBe(output);
}

/** What all that the journal moves and removes by itself has left of the exec: its output, now and for the next process. */
async function survives(output: string): Promise<void> {
  await reads(output);
  for (let round = 0; round < 3; round += 1) {
    (await filler(100_000))();
    await expect.poll(() => readdirSync(directory).length).toBeLessThanOrEqual(2);
  }
  await reads(output);
  await journal.close();
  expect(await replayed()).toEqual(['end']);
}

/** Kinds of the entries that the next process finds. */
async function replayed(): Promise<readonly string[]> {
  const found: string[] = [];
  await new Journal(directory).replay(({ kind, meta }) => {
    if (meta !== 'filler') found.push(kind);
  });
  return found;
}

test('an exec that was removed before it was kept leaves nothing when its end is to be kept', async () => {
  await storage.remove();
  await storage.started();
  await finish('out');
  await journal.close();
  expect(existsSync(directory)).toBe(false);
});

test('a start is not moved behind the end that is being written', async () => {
  await storage.started();
  const letGo = await filler(10_000);
  const release = hold();
  const finished = finish('some output');
  await expect.poll(() => disk.waiting).toBe(1);
  letGo();
  for (let turns = 0; turns < 5; turns += 1) await turn();
  release();
  await finished;
  await survives('some output');
});

test('a start is not asked for behind the end that is being written', async () => {
  open({ segment: 10_000 });
  const release = hold();
  const finished = finish('some output');
  await expect.poll(() => disk.waiting).toBe(1);
  const started = storage.started();
  release();
  await Promise.all([finished, started]);
  await survives('some output');
});

test('an end that is written behind the start that was moved leaves nothing of that', async () => {
  await storage.started();
  const letGo = await filler(10_000);
  const release = hold();
  letGo();
  await expect.poll(() => disk.waiting).toBe(1);
  const output = 'some output'.repeat(2000);
  const finished = finish(output);
  release();
  await finished;
  // Most of it lives: only what holds nothing goes.
  (await filler(1))();
  await expect.poll(() => readdirSync(directory).length).toBeLessThanOrEqual(2);
  await survives(output);
});
