import { createHash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { BoxkiteError, v1 } from '@boxkite/protocol';
import type { Kysely, Selectable } from 'kysely';
import { stored } from './open.ts';
import type { KeyTable, Tables } from './tables.ts';

const RANDOM_BYTES = 32;
const KEY_LENGTH = v1.apiKeyPrefix.length + 43;
/** So much of a key is shown, and finds it. */
const PREFIX_LENGTH = v1.apiKeyPrefix.length + 6;
const MINUTE = 60_000;
/** Whose sandboxes those are that this machine's own user makes. */
const LOCAL_ACCOUNT = 'local';
/** How lists show the key of this machine's administrator. */
const LOCAL_NAME = 'local';

/** Who a key speaks for. */
export interface Principal {
  readonly keyId: string;
  readonly account: string;
  readonly admin: boolean;
}

interface Known {
  readonly row: Selectable<KeyTable>;
  readonly hash: Buffer;
  readonly principal: Principal;
  /** Called when it is revoked. */
  readonly onRevoked: Set<() => void>;
  lastUsed: number | null;
  dirty: boolean;
}

/** API keys. All are in memory, so that a call costs one hash and no query; the database holds hashes alone. */
export class KeyStore {
  readonly #db: Kysely<Tables>;
  readonly #byPrefix = new Map<string, Known[]>();
  readonly #byId = new Map<string, Known>();

  private constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  /** Reads all keys. Errors: `state_unavailable`. */
  static async open(db: Kysely<Tables>): Promise<KeyStore> {
    const store = new KeyStore(db);
    for (const row of await stored(() => db.selectFrom('api_keys').selectAll().execute())) store.#add(row);
    return store;
  }

  /** `null` for one that is not known. */
  authenticate(key: string): Principal | null {
    if (key.length !== KEY_LENGTH) return null;
    const candidates = this.#byPrefix.get(key.slice(0, PREFIX_LENGTH));
    if (candidates === undefined) return null;
    const hash = digest(key);
    const found = candidates.find((known) => timingSafeEqual(known.hash, hash));
    if (found === undefined) return null;
    const now = Date.now();
    if (found.lastUsed === null || now - found.lastUsed >= MINUTE) {
      found.lastUsed = now;
      found.dirty = true;
    }
    return found.principal;
  }

  /** Calls back when a key is revoked, until what it returns is called. */
  whenRevoked(keyId: string, callback: () => void): () => void {
    const callbacks = this.#byId.get(keyId)?.onRevoked;
    callbacks?.add(callback);
    return () => void callbacks?.delete(callback);
  }

  /** Makes a key; the answer alone holds it. Errors: `state_unavailable`. */
  async create(name: string, account: string, admin: boolean): Promise<v1.CreatedKey> {
    const { row, key } = newKey({ name, account, admin, local: false });
    await stored(() => this.#db.insertInto('api_keys').values(row).execute());
    return { ...shown(this.#add(row)), key };
  }

  /** Whether this is the key that this run of the daemon made for this machine's administrator. */
  isLocal(key: string, instance: string): boolean {
    const principal = this.authenticate(key);
    const row = principal === null ? undefined : this.#byId.get(principal.keyId)?.row;
    return row !== undefined && row.local !== 0 && row.name === localName(instance);
  }

  /** Makes the key of this machine's administrator and revokes the one before. Errors: `state_unavailable`. */
  async replaceLocal(instance: string): Promise<string> {
    const { row, key } = newKey({ name: localName(instance), account: LOCAL_ACCOUNT, admin: true, local: true });
    await stored(() =>
      this.#db.transaction().execute(async (transaction) => {
        await transaction.deleteFrom('api_keys').where('local', '=', 1).execute();
        await transaction.insertInto('api_keys').values(row).execute();
      }),
    );
    for (const known of [...this.#byId.values()]) if (known.row.local !== 0) this.#remove(known);
    this.#add(row);
    return key;
  }

  /** In the order of their making. */
  list(): v1.ApiKey[] {
    return [...this.#byId.values()].sort((a, b) => a.row.created_at - b.row.created_at).map(shown);
  }

  /**
   * A revoked key is refused from the next request on. That of this machine's administrator is made by the daemon alone, and
   * without it nobody here could make another. Errors: `not_found`, `conflict`, `state_unavailable`.
   */
  async revoke(id: string): Promise<void> {
    const known = this.#byId.get(id);
    if (known === undefined) throw new BoxkiteError('not_found', 'there is no such key');
    if (known.row.local !== 0) {
      throw new BoxkiteError('conflict', 'the key that this machine itself uses is not removed by hand', {
        hint: 'Stop and start the daemon: it makes a new one each time, and the old one is refused.',
      });
    }
    await stored(() => this.#db.deleteFrom('api_keys').where('id', '=', id).execute());
    this.#remove(known);
  }

  /** Writes down when keys were used. Errors: `state_unavailable`. */
  async flush(): Promise<void> {
    for (const known of this.#byId.values()) {
      if (!known.dirty) continue;
      const { lastUsed: last_used_at } = known;
      await stored(() =>
        this.#db.updateTable('api_keys').set({ last_used_at }).where('id', '=', known.row.id).execute(),
      );
      known.dirty = false;
    }
  }

  #add(row: Selectable<KeyTable>): Known {
    const known: Known = {
      row,
      hash: Buffer.from(row.hash, 'hex'),
      principal: { keyId: row.id, account: row.account, admin: row.admin !== 0 },
      onRevoked: new Set(),
      lastUsed: row.last_used_at,
      dirty: false,
    };
    this.#byId.set(row.id, known);
    const same = this.#byPrefix.get(row.prefix);
    if (same === undefined) this.#byPrefix.set(row.prefix, [known]);
    else same.push(known);
    return known;
  }

  #remove(known: Known): void {
    for (const tell of known.onRevoked) tell();
    this.#byId.delete(known.row.id);
    const rest = (this.#byPrefix.get(known.row.prefix) ?? []).filter((other) => other !== known);
    if (rest.length === 0) this.#byPrefix.delete(known.row.prefix);
    else this.#byPrefix.set(known.row.prefix, rest);
  }
}

/** Told by the database alone which run it belongs to. */
function localName(instance: string): string {
  return `this machine, run ${instance}`;
}

function newKey(of: { name: string; account: string; admin: boolean; local: boolean }) {
  const key = v1.apiKeyPrefix + randomBytes(RANDOM_BYTES).toString('base64url');
  const row: Selectable<KeyTable> = {
    id: randomUUID(),
    name: of.name,
    account: of.account,
    admin: of.admin ? 1 : 0,
    prefix: key.slice(0, PREFIX_LENGTH),
    hash: digest(key).toString('hex'),
    created_at: Date.now(),
    last_used_at: null,
    local: of.local ? 1 : 0,
  };
  return { row, key };
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

function shown(known: Known): v1.ApiKey {
  const { id, name, account, prefix, created_at, local } = known.row;
  return {
    id,
    name: local === 0 ? name : LOCAL_NAME,
    account,
    admin: known.principal.admin,
    prefix,
    created_at: new Date(created_at).toISOString(),
    last_used_at: known.lastUsed === null ? null : new Date(known.lastUsed).toISOString(),
  };
}
