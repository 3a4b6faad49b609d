import { accessSync, constants, existsSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { Kysely, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { z } from 'zod';
import { migrationProvider } from './migrations.ts';
import { NodeSqlite } from './node-sqlite.ts';
import type { Tables } from './tables.ts';

const BUSY_TIMEOUT_MS = 5_000;
const SIDE_FILES = ['', '-wal', '-shm'] as const;
/** Result codes of SQLite, without their extensions. */
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

/** The daemon's database. */
export interface Database {
  readonly db: Kysely<Tables>;
  readonly close: () => Promise<void>;
}

/**
 * Opens the database, makes it where there is none, and brings it up to date. One that is corrupt is moved aside, whole,
 * to a name that nothing has, and the call fails. Errors: `data_unusable`; `state_unavailable` for a full disk.
 */
export async function openDatabase(path: string): Promise<Database> {
  let sqlite: NodeSqlite | undefined;
  try {
    check(path);
    sqlite = new NodeSqlite(path, BUSY_TIMEOUT_MS);
    sqlite.exec('pragma journal_mode = wal; pragma synchronous = normal');
    const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: sqlite }) });
    await migrate(db);
    return { db, close: () => db.destroy() };
  } catch (error) {
    sqlite?.close();
    throw refusal(path, error);
  }
}

/** Reads what is there before anything is written to it. */
function check(path: string): void {
  if (!existsSync(path)) return;
  const sqlite = new NodeSqlite(path, BUSY_TIMEOUT_MS, true);
  try {
    const [found] = z.array(z.object({ quick_check: z.string() })).parse(sqlite.all('pragma quick_check(1)'));
    if (found?.quick_check !== 'ok') throw new Corrupt(found?.quick_check ?? 'it can not be checked');
  } finally {
    sqlite.close();
  }
}

async function migrate(db: Kysely<Tables>): Promise<void> {
  const { error } = await new Migrator({ db, provider: migrationProvider }).migrateToLatest();
  if (error instanceof Error) throw error;
  if (error !== undefined) throw new Error('the tables could not be brought up to date', { cause: error });
}

class Corrupt extends Error {}

function refusal(path: string, error: unknown): BoxkiteError {
  const code = primaryCode(error);
  if (error instanceof Corrupt || code === CORRUPT || code === NOT_A_DATABASE) return keptAside(path, error);
  if (isStorageFailure(error) && isWritable(path)) return storageFailure(error);
  const why = error instanceof Error ? error.message : 'unknown error';
  return new BoxkiteError('data_unusable', `the database ${path} can't be opened: ${why}`, { cause: error });
}

/** A disk may have room again; a file that may not be written stays so. */
function isWritable(path: string): boolean {
  const mode = constants.R_OK | constants.W_OK;
  try {
    accessSync(dirname(path), mode);
    if (!existsSync(path)) return true;
    accessSync(path, mode);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function keptAside(path: string, cause: unknown): BoxkiteError {
  const aside = freeName(path);
  for (const side of SIDE_FILES) {
    if (existsSync(`${path}${side}`)) renameSync(`${path}${side}`, `${aside}${side}`);
  }
  return new BoxkiteError('data_unusable', `the database ${path} is corrupt; it is kept as ${aside}`, {
    hint: `Put a copy from a backup to ${path}, or start again without one: sandboxes and keys are then unknown, and nothing of the old file is touched.`,
    details: { kept_as: aside },
    cause,
  });
}

function freeName(path: string): string {
  const stamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '');
  for (let n = 0; ; n += 1) {
    const name = `${path}.corrupt-${stamp}${n === 0 ? '' : `-${n}`}`;
    if (!SIDE_FILES.some((side) => existsSync(`${name}${side}`))) return name;
  }
}

/** Names the databases that were kept aside, so that an operator is reminded of them. */
export function isKeptAside(name: string): boolean {
  return /\.corrupt-\d{8}T\d{6}Z(-\d+)?$/.test(name);
}

/** Result codes of SQLite that say that the disk or the file can't be written now, or that it is in use. */
const STORAGE_CODES = new Set([5, 6, 7, 8, 10, 13, 14]);

function primaryCode(error: unknown): number | null {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : null;
  return typeof code === 'number' ? code & 0xff : null;
}

/** Whether SQLite could not store what it was to: a full disk, a lost one. */
function isStorageFailure(error: unknown): boolean {
  const code = primaryCode(error);
  return code !== null && STORAGE_CODES.has(code);
}

/** What a caller is told of it. */
function storageFailure(cause: unknown): BoxkiteError {
  return new BoxkiteError('state_unavailable', 'the state of the daemon can not be stored now', { cause });
}

/** Runs a query. Errors: `state_unavailable` where SQLite could not do it. */
export async function stored<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query();
  } catch (error) {
    throw isStorageFailure(error) ? storageFailure(error) : error;
  }
}
