import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { exitStatusOf } from '@boxkite/kit';
import { v1 } from '@boxkite/protocol';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { newRow } from '../../manager/src/records.ts';
import { IdempotencyStore } from '../src/database/idempotency-store.ts';
import { openDatabase } from '../src/database/open.ts';
import { SqliteSessionStore } from '../src/database/sandbox-store.ts';
import { TestDaemon, until } from './harness.ts';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'boxkite-db-'));
  path = join(directory, 'boxkite.db');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function refusal(): Promise<{ code: string; message: string; details: Record<string, unknown> }> {
  try {
    const { close } = await openDatabase(path);
    await close();
  } catch (error) {
    expect(exitStatusOf(error)).toBe(78);
    return error as { code: string; message: string; details: Record<string, unknown> };
  }
  throw new Error('it was opened');
}

describe('a corrupt database', () => {
  it.each([
    ['no database at all', () => Buffer.from('this is no database, by far not one that SQLite would read')],
    [
      'one with a torn page',
      () => {
        const database = new DatabaseSync(path);
        database.exec('create table t (a); create index i on t (a)');
        database.exec('begin');
        for (let n = 0; n < 2000; n += 1) database.exec(`insert into t values ('${'x'.repeat(50)}${n}')`);
        database.exec('commit');
        database.close();
        const bytes = readFileSync(path);
        bytes.fill(0xab, 4096, 20_000);
        return bytes;
      },
    ],
  ])('(%s) is kept aside, named, never overwritten, and the daemon refuses to start', async (_what, content) => {
    for (let n = 0; n < 3; n += 1) {
      const bytes = Buffer.from(content());
      writeFileSync(path, bytes);
      const refused = await refusal();
      expect(refused.code).toBe('data_unusable');
      const name = String(refused.details['kept_as']);
      expect(refused.message).toContain(name);
      expect(readFileSync(name).equals(bytes)).toBe(true);
    }
    expect(readdirSync(directory).filter((name) => name.includes('.corrupt-'))).toHaveLength(3);
  });

  it('is remembered at the next start, which has an empty one', async () => {
    writeFileSync(path, 'x'.repeat(5000));
    await refusal();
    const test = new TestDaemon();
    try {
      for (const name of readdirSync(directory)) writeFileSync(join(test.directory, name), '');
      await test.open();
      expect(test.logs.join('')).toContain('kept aside');
    } finally {
      await test.close();
    }
  });
});

it('a data directory that is none is said to be', async () => {
  path = join(directory, 'missing', 'boxkite.db');
  expect((await refusal()).code).toBe('data_unusable');
});

it('a database that is a directory is said to be none that can be used', async () => {
  mkdirSync(path);
  expect((await refusal()).message).toContain(path);
  expect(statSync(path).isDirectory()).toBe(true);
});

it('what was stored is there after it is opened again', async () => {
  const { close, db } = await openDatabase(path);
  await db.insertInto('accounts').values({ account: 'a', sandboxes_created: 1 }).execute();
  await close();
  const again = await openDatabase(path);
  expect(await again.db.selectFrom('accounts').selectAll().execute()).toEqual([{ account: 'a', sandboxes_created: 1 }]);
  await again.close();
});

it('a disk that is full is said to be, again and again, and takes everything when there is room', async () => {
  const { db, close } = await openDatabase(path);
  const store = new SqliteSessionStore(db);
  const granted = { wall: 0, monotonic: 0, boot: 'b', minutes: 1 };
  await sql`pragma max_page_count = 20`.execute(db);
  let made = 0;
  let refused = 0;
  while (refused < 3) {
    const rows = [newRow('a', { label: 'x'.repeat(200) }, granted), newRow('a', {}, granted)];
    try {
      made += (await store.insert(rows)).length;
    } catch (error) {
      expect(error).toMatchObject({ code: 'state_unavailable', retryable: true });
      refused += 1;
    }
  }
  expect(await store.unfinished()).toHaveLength(made);
  await sql`pragma max_page_count = 1000`.execute(db);
  await store.insert([newRow('a', {}, granted)]);
  expect(await store.unfinished()).toHaveLength(made + 1);
  expect((await store.account('a', 0)).created).toBe(made + 1);
  await close();
});

describe('what is kept for a time', () => {
  const DAY = 86_400_000;
  afterEach(() => vi.useRealTimers());

  it('are answers, for a day: they do not block after it, whether or not their call has ended', async () => {
    const { db, close } = await openDatabase(path);
    vi.useFakeTimers({ toFake: ['Date'] });
    const former = new IdempotencyStore(db);
    const present = new IdempotencyStore(db);
    for (const scope of ['answered', 'cut']) expect(await former.claim(scope, 'f')).toEqual({ kind: 'first' });
    await former.answer('answered', 201, Buffer.from('{}'));
    vi.setSystemTime(Date.now() + DAY - 1);
    await present.forget();
    expect((await present.claim('answered', 'f')).kind).toBe('answered');
    expect((await present.claim('cut', 'f')).kind).toBe('unknown');
    vi.setSystemTime(Date.now() + 2);
    expect((await present.claim('cut', 'other')).kind).toBe('first');
    await present.forget();
    const rows = await db.selectFrom('idempotency_keys').select('fingerprint').execute();
    expect(rows).toEqual([{ fingerprint: 'other' }]);
    await close();
  });

  it('are records of sandboxes of which nothing is left', async () => {
    const { db, close } = await openDatabase(path);
    const store = new SqliteSessionStore(db);
    const granted = { wall: 0, monotonic: 0, boot: 'b', minutes: 1 };
    const ends = [10, 20, null];
    const rows = await store.insert(ends.map((destroyed_at) => ({ ...newRow('a', {}, granted), destroyed_at })));
    await store.forget(20);
    const left = await Promise.all(rows.map(({ id }) => store.get(id)));
    expect(left.map((row) => row?.id)).toEqual([undefined, rows[1]?.id, rows[2]?.id]);
    await close();
  });
});

describe('a daemon', () => {
  it('writes its key for its own user alone, keeps it over a restart of the process, and makes a new one for a new run', async () => {
    const test = await TestDaemon.start();
    try {
      const file = join(test.directory, 'key');
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const { key } = test;
      const id = await test.sandbox();
      await test.daemon?.close('release');
      await test.open({}, 'abc');
      expect(test.key).toBe(key);
      expect((await test.call('GET', `/v1/sandboxes/${id}`)).json.state).toBe('ready');
      expect((await test.call('POST', `/v1/sandboxes/${id}/exec`, { body: { command: 'true' } })).json.exit_code).toBe(
        0,
      );
      await test.daemon?.close('release');
      await test.open({}, 'def');
      expect(test.key).not.toBe(key);
      await test.refused(401, 'invalid_api_key', 'GET', '/v1/sandboxes', { key });
      expect((await test.call('GET', `/v1/sandboxes/${id}`)).json.state).toBe('ready');
    } finally {
      await test.close();
    }
  });

  it('keeps keys over restarts, and stores no key', async () => {
    const test = await TestDaemon.start();
    try {
      const made = await test.ok(v1.createdKey, 201, 'POST', '/v1/api-keys', {
        body: { name: 'n' },
        headers: { 'idempotency-key': 'k' },
      });
      await test.daemon?.close('release');
      for (const name of readdirSync(test.directory).filter((found) => found.startsWith('boxkite.db'))) {
        expect(readFileSync(join(test.directory, name)).includes(made.key)).toBe(false);
      }
      await test.open();
      expect((await test.call('GET', '/v1/sandboxes', { key: made.key })).status).toBe(200);
    } finally {
      await test.close();
    }
  });

  it('never repeats a call whose end it can not know', async () => {
    const test = await TestDaemon.start();
    try {
      const id = await test.sandbox();
      const body = { command: 'hang' };
      const headers = { 'idempotency-key': 'k' };
      const cut = test.call('POST', `/v1/sandboxes/${id}/exec`, { body, headers });
      cut.catch(() => undefined);
      await until(() => test.substrate.find(id)?.execs.running === 1, 20_000);
      // What a killed process leaves: the row of a call that runs.
      const copy = new DatabaseSync(join(test.directory, 'boxkite.db'));
      const [row] = copy.prepare('select scope, fingerprint, created_at from idempotency_keys').all();
      copy.close();
      await test.daemon?.close('release');
      const database = new DatabaseSync(join(test.directory, 'boxkite.db'));
      database
        .prepare('insert or replace into idempotency_keys (scope, fingerprint, created_at) values (?, ?, ?)')
        .run(String(row?.['scope']), String(row?.['fingerprint']), Number(row?.['created_at']));
      database.close();
      await test.open();
      await test.refused(409, 'conflict', 'POST', `/v1/sandboxes/${id}/exec`, { body, headers });
    } finally {
      await test.close();
    }
  });

  it('with a full disk says so, goes on with what runs, and is well again when there is room', async () => {
    const test = await TestDaemon.start();
    try {
      const id = await test.sandbox();
      const database = new DatabaseSync(join(test.directory, 'boxkite.db'));
      database.exec('begin immediate');
      // Nobody else can write now: what the caller of SQLite sees of a disk that refuses.
      const refused = await test.call('POST', '/v1/sandboxes', { body: { label: 'later' } });
      expect([refused.status, refused.json.error.code, refused.json.error.retryable]).toEqual([
        503,
        'state_unavailable',
        true,
      ]);
      expect((await test.call('POST', `/v1/sandboxes/${id}/exec`, { body: { command: 'true' } })).json.exit_code).toBe(
        0,
      );
      expect(test.substrate.running.size).toBe(1);
      database.exec('rollback');
      database.close();
      expect((await test.call('POST', '/v1/sandboxes')).status).toBe(201);
    } finally {
      await test.close();
    }
  });

  it('stops in order: calls get their end, streams theirs, nothing is left', async () => {
    const test = await TestDaemon.start();
    const id = await test.sandbox();
    const disk = await test.sandbox({ workspace: 'disk' });
    const eid = await test.exec(id, { command: 'hang' });
    const execs = test.substrate.find(id)?.execs;
    const output = execs && vi.spyOn(execs, 'output');
    const running = test.call('POST', `/v1/sandboxes/${id}/exec`, { body: { command: 'hang' } });
    const followed = test.call('GET', `/v1/sandboxes/${id}/execs/${eid}/output`, {
      headers: { accept: 'text/event-stream' },
    });
    await until(() => execs?.running === 2 && output?.mock.calls.length === 1, 20_000);
    await test.daemon?.close('daemon_stopped');
    expect((await running).json).toMatchObject({ end: 'killed', exit_code: 137 });
    expect((await followed).text).toMatch(/"type":"(error|exit)"/);
    expect(test.substrate.running.size).toBe(0);
    expect(test.substrate.kept.has(disk)).toBe(true);
    await test.close();
  });
});
