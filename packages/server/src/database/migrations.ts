import { type Kysely, sql } from 'kysely';
import type { Migration, MigrationProvider } from 'kysely/migration';

const first: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('sandboxes')
      .addColumn('seq', 'integer', (column) => column.primaryKey().autoIncrement())
      .addColumn('id', 'text', (column) => column.notNull().unique())
      .addColumn('account', 'text', (column) => column.notNull())
      .addColumn('label', 'text')
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('state_reason', 'text')
      .addColumn('goal', 'text')
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('kept', 'integer', (column) => column.notNull())
      .addColumn('spec', 'text', (column) => column.notNull())
      .addColumn('effective', 'text')
      .addColumn('created_at', 'integer', (column) => column.notNull())
      .addColumn('expires_at', 'integer', (column) => column.notNull())
      .addColumn('granted', 'text', (column) => column.notNull())
      .addColumn('destroyed_at', 'integer')
      .addColumn('version', 'integer', (column) => column.notNull())
      .execute();
    await sql`create index sandboxes_unfinished on sandboxes (seq) where destroyed_at is null`.execute(db);
    await db.schema.createIndex('sandboxes_finished').on('sandboxes').columns(['account', 'destroyed_at']).execute();
    await db.schema
      .createTable('accounts')
      .addColumn('account', 'text', (column) => column.primaryKey())
      .addColumn('sandboxes_created', 'integer', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('api_keys')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('account', 'text', (column) => column.notNull())
      .addColumn('admin', 'integer', (column) => column.notNull())
      .addColumn('prefix', 'text', (column) => column.notNull())
      .addColumn('hash', 'text', (column) => column.notNull().unique())
      .addColumn('created_at', 'integer', (column) => column.notNull())
      .addColumn('last_used_at', 'integer')
      .addColumn('local', 'integer', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('idempotency_keys')
      .addColumn('scope', 'text', (column) => column.primaryKey())
      .addColumn('fingerprint', 'text', (column) => column.notNull())
      .addColumn('status', 'integer')
      .addColumn('body', 'blob')
      .addColumn('created_at', 'integer', (column) => column.notNull())
      .execute();
  },
};

/** In the order in which they run; one that has been released never changes. */
const migrations: Readonly<Record<string, Migration>> = { '0001_first': first };

/** All migrations, from code: nothing is read from a directory. */
export const migrationProvider: MigrationProvider = { getMigrations: async () => ({ ...migrations }) };
