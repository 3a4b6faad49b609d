import type { AccountHistory, FinishedQuery, NewSandboxRow, SandboxRow, SessionStore } from '@boxkite/manager';
import type { Insertable, Kysely, Selectable } from 'kysely';
import { sql } from 'kysely';
import { z } from 'zod';
import { stored } from './open.ts';
import type { SandboxTable, Tables } from './tables.ts';

/** The manager's records in the database. */
export class SqliteSessionStore implements SessionStore {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  insert(rows: readonly NewSandboxRow[]): Promise<readonly SandboxRow[]> {
    return stored(() =>
      this.#db.transaction().execute(async (transaction) => {
        const inserted: SandboxRow[] = [];
        for (const row of rows) {
          const { seq } = await transaction
            .insertInto('sandboxes')
            .values(encode(row))
            .returning('seq')
            .executeTakeFirstOrThrow();
          inserted.push({ ...row, seq });
        }
        const account = rows[0]?.account;
        if (account !== undefined) {
          await transaction
            .insertInto('accounts')
            .values({ account, sandboxes_created: rows.length })
            .onConflict((conflict) =>
              conflict
                .column('account')
                .doUpdateSet({ sandboxes_created: sql`accounts.sandboxes_created + ${rows.length}` }),
            )
            .execute();
        }
        return inserted;
      }),
    );
  }

  update(row: SandboxRow, version: number): Promise<boolean> {
    return stored(async () => {
      const { numUpdatedRows } = await this.#db
        .updateTable('sandboxes')
        .set(encode(row))
        .where('id', '=', row.id)
        .where('version', '=', version)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    });
  }

  get(id: string): Promise<SandboxRow | undefined> {
    return stored(async () => {
      const row = await this.#db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirst();
      return row === undefined ? undefined : decode(row);
    });
  }

  unfinished(): Promise<readonly SandboxRow[]> {
    return stored(async () => {
      const rows = await this.#db
        .selectFrom('sandboxes')
        .selectAll()
        .where('destroyed_at', 'is', null)
        .orderBy('seq')
        .execute();
      return rows.map(decode);
    });
  }

  finished({ account, after, limit }: FinishedQuery): Promise<readonly SandboxRow[]> {
    return stored(async () => {
      let query = this.#db
        .selectFrom('sandboxes')
        .selectAll()
        .where('destroyed_at', 'is not', null)
        .where('seq', '>', after)
        .orderBy('seq');
      if (account !== null) query = query.where('account', '=', account);
      if (limit !== null) query = query.limit(limit);
      return (await query.execute()).map(decode);
    });
  }

  account(account: string, since: number): Promise<AccountHistory> {
    return stored(async () => {
      const created = await this.#db
        .selectFrom('accounts')
        .select('sandboxes_created')
        .where('account', '=', account)
        .executeTakeFirst();
      const used = await this.#db
        .selectFrom('sandboxes')
        .select(sql<number | null>`sum(max(0, destroyed_at - max(created_at, ${since})))`.as('ms'))
        .where('account', '=', account)
        .where('destroyed_at', '>', since)
        .executeTakeFirst();
      return { created: created?.sandboxes_created ?? 0, finished_ms: used?.ms ?? 0 };
    });
  }

  forget(before: number): Promise<void> {
    return stored(async () => {
      await this.#db.deleteFrom('sandboxes').where('destroyed_at', '<', before).execute();
    });
  }
}

function encode(row: NewSandboxRow): Insertable<SandboxTable> {
  return {
    id: row.id,
    account: row.account,
    label: row.label,
    state: row.state,
    state_reason: row.state_reason,
    goal: row.goal,
    kind: row.kind,
    kept: row.kept ? 1 : 0,
    spec: JSON.stringify(row.spec),
    effective: row.effective === null ? null : JSON.stringify(row.effective),
    created_at: Math.round(row.created_at),
    expires_at: Math.round(row.expires_at),
    granted: JSON.stringify(row.grant),
    destroyed_at: row.destroyed_at === null ? null : Math.round(row.destroyed_at),
    version: row.version,
  };
}

const names = z.object({
  state: z.enum(['creating', 'ready', 'stopping', 'stopped', 'failed', 'destroyed']),
  goal: z.enum(['create', 'start', 'stop', 'destroy']).nullable(),
  kind: z.enum(['tmpfs', 'disk']),
});

function decode(row: Selectable<SandboxTable>): SandboxRow {
  return {
    seq: row.seq,
    id: row.id,
    account: row.account,
    label: row.label,
    state_reason: row.state_reason,
    ...names.parse(row),
    kept: row.kept !== 0,
    spec: JSON.parse(row.spec) as SandboxRow['spec'],
    effective: row.effective === null ? null : (JSON.parse(row.effective) as SandboxRow['effective']),
    created_at: row.created_at,
    expires_at: row.expires_at,
    grant: JSON.parse(row.granted) as SandboxRow['grant'],
    destroyed_at: row.destroyed_at,
    version: row.version,
  };
}
