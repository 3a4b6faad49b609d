/** What the manager keeps of each sandbox across its own end. */
import type { Effective, SandboxSpec, SandboxState } from '@boxkite/protocol';

/** When a sandbox was last given time: from which its deadline counts, whatever the wall clock did since. */
export interface Grant {
  readonly wall: number;
  readonly monotonic: number;
  readonly boot: string;
  readonly minutes: number;
}

/** A sandbox as it is stored. Times are ms since 1970. */
export interface SandboxRow {
  /** In the order of creation; given by the store. */
  readonly seq: number;
  readonly id: string;
  readonly account: string;
  readonly label: string | null;
  readonly state: SandboxState;
  readonly state_reason: string | null;
  /** What an interrupted transition was to come to: a restart finishes it, and never takes a stop for a destroy. */
  readonly goal: 'create' | 'start' | 'stop' | 'destroy' | null;
  readonly kind: 'tmpfs' | 'disk';
  /** Its `disk` workspace exists beyond the runner. */
  readonly kept: boolean;
  readonly spec: StoredSpec;
  readonly effective: Effective | null;
  readonly created_at: number;
  readonly expires_at: number;
  readonly grant: Grant;
  /** Set where nothing of it is left: `destroyed`, or `failed` without a workspace. */
  readonly destroyed_at: number | null;
  /** Raised by one at each change. */
  readonly version: number;
}

/** What a sandbox is made of, so that it can be started again. */
export type StoredSpec = Omit<SandboxSpec, 'copy' | 'label' | 'lifetime_minutes'>;

/** A sandbox that the store has not seen. */
export type NewSandboxRow = Omit<SandboxRow, 'seq'>;

/** Which finished sandboxes are read. */
export interface FinishedQuery {
  /** `null`: of all accounts. */
  readonly account: string | null;
  /** Only those that were created later than the one of this `seq`. */
  readonly after: number;
  /** At most so many; `null`: all. */
  readonly limit: number | null;
}

/** What an account has used by sandboxes that are finished. */
export interface AccountHistory {
  /** Of all time, finished or not. */
  readonly created: number;
  /** ms since `since` during which its finished sandboxes existed. */
  readonly finished_ms: number;
}

/** Where rows are kept. Errors of each: `state_unavailable`, and then nothing has changed. */
export interface SessionStore {
  /** All or none. */
  insert(rows: readonly NewSandboxRow[]): Promise<readonly SandboxRow[]>;
  /** Writes the row if the stored one still has `version`: compare and set. */
  update(row: SandboxRow, version: number): Promise<boolean>;
  get(id: string): Promise<SandboxRow | undefined>;
  /** Rows without `destroyed_at`, in the order of creation. */
  unfinished(): Promise<readonly SandboxRow[]>;
  /** Rows with `destroyed_at`, in the order of creation. */
  finished(query: FinishedQuery): Promise<readonly SandboxRow[]>;
  account(account: string, since: number): Promise<AccountHistory>;
  /** Drops rows that were finished before. */
  forget(before: number): Promise<void>;
}
