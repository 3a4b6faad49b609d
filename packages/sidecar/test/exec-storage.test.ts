import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { effective, record } from '../../protocol/test/values.ts';
import { ExecLog } from '../src/records/exec-log.ts';
import { ExecStorage } from '../src/records/exec-storage.ts';
import { Journal } from '../src/records/journal.ts';
import { LogBudget } from '../src/records/log-budget.ts';
import type { StartMeta } from '../src/records/meta.ts';
import { RawStream } from '../src/records/raw-stream.ts';
import { RecordStore } from '../src/records/record-store.ts';
import { StreamLog } from '../src/records/stream-log.ts';
import { KnownSecrets } from '../src/session/known-secrets.ts';

test('an exec that was removed before it was kept leaves nothing when its end is to be kept', async () => {
  const directory = join(await mkdtemp(join(tmpdir(), 'boxkite-storage-')), 'records');
  const window = { head: 10, tail: 10 };
  const meta: StartMeta = {
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
    window,
    known: null,
  };
  const journal = new Journal(directory);
  const log = new ExecLog(new StreamLog(window), new StreamLog(window));
  const shelf = { directory, journal, budget: new LogBudget(1000, new RecordStore()) };
  const storage = new ExecStorage(shelf, meta, log, effective);
  const raw = new RawStream(new KnownSecrets().none.known);
  log.append('stdout', Buffer.from('out'));
  await storage.remove();
  await storage.started();
  log.end(record);
  await storage.finish(record, () => raw.position());
  await journal.close();
  expect(existsSync(directory)).toBe(false);
  await rm(join(directory, '..'), { recursive: true });
});
