import type { Generated } from 'kysely';

/** Tables of the daemon's database, as the last migration leaves them. Times are ms since 1970; objects are JSON. */
export interface Tables {
  sandboxes: SandboxTable;
  accounts: { account: string; sandboxes_created: number };
  api_keys: KeyTable;
  idempotency_keys: IdempotencyTable;
}

/** See `SandboxRow` of the manager. */
export interface SandboxTable {
  seq: Generated<number>;
  id: string;
  account: string;
  label: string | null;
  state: string;
  state_reason: string | null;
  goal: string | null;
  kind: string;
  kept: number;
  spec: string;
  effective: string | null;
  created_at: number;
  expires_at: number;
  granted: string;
  destroyed_at: number | null;
  version: number;
}

/** One API key; the key itself is stored nowhere. */
export interface KeyTable {
  id: string;
  name: string;
  account: string;
  admin: number;
  /** How the key begins. */
  prefix: string;
  /** SHA-256, hexadecimal. */
  hash: string;
  created_at: number;
  last_used_at: number | null;
  /** Of this machine's administrator: replaced at each start. */
  local: number;
}

/** One use of an Idempotency-Key. */
export interface IdempotencyTable {
  scope: string;
  fingerprint: string;
  /** `null` while the first call runs. */
  status: number | null;
  body: Uint8Array | null;
  created_at: number;
}
