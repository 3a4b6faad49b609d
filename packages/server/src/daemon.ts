/** The daemon without its substrate: database, keys, manager, server. */
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Listener, listen, type Patience } from '@boxkite/kit';
import type { ManagerLimits, Substrate } from '@boxkite/manager';
import { SandboxManager, systemClock } from '@boxkite/manager';
import { maxLifetimeMinutes } from '@boxkite/protocol';
import type { FastifyBaseLogger } from 'fastify';
import { IdempotencyStore } from './database/idempotency-store.ts';
import { KeyStore } from './database/key-store.ts';
import type { Database } from './database/open.ts';
import { isKeptAside, openDatabase } from './database/open.ts';
import { SqliteSessionStore } from './database/sandbox-store.ts';
import type { StatusFacts } from './routes/context.ts';
import { createServer } from './server.ts';
import type { MachineLimits } from './services/sandbox-spec.ts';

/** What a daemon is made of. */
export interface DaemonParts {
  readonly substrate: Substrate;
  /** Names this run of the daemon, which outlives this process. */
  readonly instance: string;
  readonly version: string;
  /** When this run of the daemon began; ISO 8601. Default: now. */
  readonly startedAt?: string | undefined;
  /** What the runner measured of itself. */
  readonly runner: StatusFacts['runner'];
  readonly machine: MachineLimits;
  /** A private directory that exists, for `boxkite.db`. */
  readonly dataDirectory: string;
  /** A private directory that exists, for `key`. */
  readonly runtimeDirectory: string;
  readonly listeners: readonly Listener[];
  readonly limits?: Partial<ManagerLimits> | undefined;
  /** With clients whose headers do not arrive. */
  readonly patience?: Patience | undefined;
  readonly logger: FastifyBaseLogger;
}

/** A daemon that serves. */
export interface Daemon {
  /** Addresses of its TCP listeners and paths of the others, in their order. */
  readonly addresses: readonly string[];
  /**
   * Takes no new call, ends long answers, and then: `daemon_stopped` keeps `disk` sandboxes and destroys the others;
   * `release` leaves all running for the next process. Resolves when everything is written and closed; idempotent.
   */
  close(reason: 'daemon_stopped' | 'release'): Promise<void>;
}

const DEFAULT_LIMITS: ManagerLimits = {
  total: 2000,
  perAccount: 2000,
  defaultLifetimeMinutes: 1440,
  maxLifetimeMinutes,
  retentionDays: 31,
};
const UPKEEP_MS = 60_000;
const DATABASE = 'boxkite.db';
const KEY = 'key';

/** Starts to serve. Errors: `data_unusable`, with which the process is to exit by 78; `state_unavailable`; those of listening. */
export async function startDaemon(parts: DaemonParts): Promise<Daemon> {
  const { dataDirectory, logger } = parts;
  remind(dataDirectory, logger);
  const database = await openDatabase(join(dataDirectory, DATABASE));
  try {
    return await serve(parts, database);
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function serve(parts: DaemonParts, database: Database): Promise<Daemon> {
  const { logger, substrate, instance } = parts;
  const keys = await KeyStore.open(database.db);
  await provideKey(join(parts.runtimeDirectory, KEY), keys, instance);
  const idempotency = new IdempotencyStore(database.db);
  const manager = await SandboxManager.open({
    substrate,
    store: new SqliteSessionStore(database.db),
    clock: systemClock(),
    limits: { ...DEFAULT_LIMITS, ...parts.limits },
    report: (what, error, sandbox) => logger.error({ err: error, sandbox }, what),
  });
  for (const id of manager.unknownWorkspaces) logger.warn({ workspace: id }, 'a kept workspace that no record names');
  const closing = new AbortController();
  const app = createServer({
    manager,
    keys,
    idempotency,
    machine: parts.machine,
    facts: {
      version: parts.version,
      instance,
      started_at: parts.startedAt ?? new Date().toISOString(),
      runner: parts.runner,
      data_directory: parts.dataDirectory,
    },
    closing: closing.signal,
    logger,
  });
  const listening = await listen(app, parts.listeners, parts.patience).catch(async (error: unknown) => {
    await manager.close('release');
    throw error;
  });
  const upkeep = keepUp(keys, idempotency, logger);
  let closed: Promise<void> | undefined;
  const close = async (reason: 'daemon_stopped' | 'release'): Promise<void> => {
    clearInterval(upkeep);
    closing.abort();
    await manager.close(reason);
    await listening.close();
    await app.close();
    await keys.flush().catch((error: unknown) => logger.error(error, 'when keys were used was not stored'));
    await database.close();
    // What starts again within this run goes on with its key.
    if (reason === 'daemon_stopped') rmSync(join(parts.runtimeDirectory, KEY), { force: true });
  };
  return {
    addresses: listening.servers.map((server) => addressOf(server.address())),
    close: (reason) => {
      closed ??= close(reason);
      return closed;
    },
  };
}

/** A restart of this process within one run keeps the key, so that nobody who has it is refused. */
async function provideKey(path: string, keys: KeyStore, instance: string): Promise<void> {
  const known = readKey(path);
  if (known !== null && keys.isLocal(known, instance)) return;
  const key = await keys.replaceLocal(instance);
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  writeFileSync(fresh, `${key}\n`, { flag: 'wx', mode: 0o600 });
  renameSync(fresh, path);
}

function readKey(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    // There is none yet, or none that can be used: a new one is made.
    return null;
  }
}

function keepUp(keys: KeyStore, idempotency: IdempotencyStore, logger: FastifyBaseLogger): NodeJS.Timeout {
  const timer = setInterval(() => {
    Promise.all([keys.flush(), idempotency.forget()]).catch((error: unknown) => logger.error(error, 'upkeep'));
  }, UPKEEP_MS);
  return timer.unref();
}

function remind(directory: string, logger: FastifyBaseLogger): void {
  for (const name of readdirSync(directory)) {
    if (isKeptAside(name)) logger.warn({ file: join(directory, name) }, 'a corrupt database that was kept aside');
  }
}

function addressOf(address: ReturnType<import('node:http').Server['address']>): string {
  if (address === null || typeof address === 'string') return address ?? '';
  return address.family === 'IPv6' ? `[${address.address}]:${address.port}` : `${address.address}:${address.port}`;
}
