import type { Kysely } from 'kysely';
import { stored } from './open.ts';
import type { Tables } from './tables.ts';

const KEPT_MS = 86_400_000;

/** What is known of an Idempotency-Key. */
export type Claim =
  | { readonly kind: 'first' }
  /** Another body was sent with it. */
  | { readonly kind: 'reused' }
  | { readonly kind: 'running' }
  /** The first call was cut off by a restart: nobody knows how it came out. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'answered'; readonly status: number; readonly body: Uint8Array };

/** Answers of calls that carried an Idempotency-Key, for a day. */
export class IdempotencyStore {
  readonly #db: Kysely<Tables>;
  readonly #running = new Set<string>();

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  /** Makes the caller the first one, or says what became of the first. Errors: `state_unavailable`. */
  async claim(scope: string, fingerprint: string): Promise<Claim> {
    const created_at = Date.now();
    const row = await stored(async () => {
      await this.#db
        .deleteFrom('idempotency_keys')
        .where('scope', '=', scope)
        .where('created_at', '<', created_at - KEPT_MS)
        .execute();
      const { numInsertedOrUpdatedRows } = await this.#db
        .insertInto('idempotency_keys')
        .values({ scope, fingerprint, status: null, body: null, created_at })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirstOrThrow();
      if (numInsertedOrUpdatedRows === 1n) return null;
      return this.#db.selectFrom('idempotency_keys').selectAll().where('scope', '=', scope).executeTakeFirst();
    });
    if (row === null || row === undefined) {
      this.#running.add(scope);
      return { kind: 'first' };
    }
    if (row.fingerprint !== fingerprint) return { kind: 'reused' };
    if (row.status !== null && row.body !== null) return { kind: 'answered', status: row.status, body: row.body };
    return { kind: this.#running.has(scope) ? 'running' : 'unknown' };
  }

  /** Keeps the answer of the first. Errors: `state_unavailable`: the key then stays one whose end is not known. */
  async answer(scope: string, status: number, body: Uint8Array): Promise<void> {
    this.#running.delete(scope);
    await stored(() =>
      this.#db.updateTable('idempotency_keys').set({ status, body }).where('scope', '=', scope).execute(),
    );
  }

  /** Nothing of the first was done: the next one is the first. Errors: `state_unavailable`. */
  async release(scope: string): Promise<void> {
    this.#running.delete(scope);
    await stored(() => this.#db.deleteFrom('idempotency_keys').where('scope', '=', scope).execute());
  }

  /** Drops what is older than a day. Errors: `state_unavailable`. */
  async forget(): Promise<void> {
    const before = Date.now() - KEPT_MS;
    await stored(() => this.#db.deleteFrom('idempotency_keys').where('created_at', '<', before).execute());
  }
}
