/** The document of `/v1`, made from the routes themselves. Nothing that serves loads this file. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '@boxkite/kit';
import { type DocumentParts, describeRoutes, type JsonObject } from '@boxkite/kit/openapi';
import type { ObservedSandbox, Substrate } from '@boxkite/manager';
import { SandboxManager, systemClock } from '@boxkite/manager';
import { BoxkiteError, effectiveSchema, execRecordSchema, v1 } from '@boxkite/protocol';
import { IdempotencyStore } from './database/idempotency-store.ts';
import { KeyStore } from './database/key-store.ts';
import { openDatabase } from './database/open.ts';
import { SqliteSessionStore } from './database/sandbox-store.ts';
import { createServer } from './server.ts';

/** Schemas with a name of their own in the document. */
const NAMED = {
  ApiKey: v1.apiKey,
  CreatedKey: v1.createdKey,
  CreatedSandbox: v1.createdSandbox,
  Effective: effectiveSchema,
  Error: v1.errorBody,
  ExecAnswer: v1.execAnswer,
  ExecRecord: execRecordSchema,
  ExecSummary: v1.execSummary,
  FileInfo: v1.fileInfo,
  ListedSandbox: v1.listedSandbox,
  Sandbox: v1.sandbox,
  Status: v1.status,
} as const;
const PARTS: DocumentParts = {
  title: 'boxkite /v1',
  description:
    'Sandboxes, commands and files over HTTP. Every answer that is not a success is an Error. Made from the routes by `make docs`.',
  security: { type: 'http', scheme: 'bearer', description: 'An API key' },
  named: NAMED,
  error: 'Error',
};

/** OpenAPI 3.1 of `/v1`. */
export async function openApiDocument(): Promise<JsonObject> {
  const directory = mkdtempSync(join(tmpdir(), 'boxkite-openapi-'));
  const database = await openDatabase(join(directory, 'db'));
  try {
    let document = (): JsonObject => ({});
    const app = createServer({
      manager: await SandboxManager.open({
        substrate: new NoSubstrate(),
        store: new SqliteSessionStore(database.db),
        clock: systemClock(),
        limits: { total: 0, perAccount: 0, defaultLifetimeMinutes: 1, maxLifetimeMinutes: 1, retentionDays: 1 },
        report: () => undefined,
      }),
      keys: await KeyStore.open(database.db),
      idempotency: new IdempotencyStore(database.db),
      machine: { memory_mb: null, cpus: null, ceilings: {} },
      facts: { version: '', instance: '', started_at: '', runner: { mode: '', layers: {} }, data_directory: '' },
      closing: new AbortController().signal,
      logger: createLogger(null, String),
      prepare: (fresh) => {
        document = describeRoutes(fresh, PARTS);
      },
    });
    await app.ready();
    const made = document();
    await app.close();
    return made;
  } finally {
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Routes are described without any sandbox. */
class NoSubstrate implements Substrate {
  start(): Promise<never> {
    return refused();
  }
  claim(): Promise<null> {
    return Promise.resolve(null);
  }
  endpoint(): Promise<never> {
    return refused();
  }
  async destroy(): Promise<void> {
    await refused();
  }
  async stop(): Promise<void> {
    await refused();
  }
  async discard(): Promise<void> {
    await refused();
  }
  workspaces(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }
  list(): Promise<readonly ObservedSandbox[]> {
    return Promise.resolve([]);
  }
  async *watch(): AsyncGenerator<never> {
    // Nothing happens.
  }
}

function refused(): Promise<never> {
  return Promise.reject(new BoxkiteError('unsupported', 'there are no sandboxes here'));
}
