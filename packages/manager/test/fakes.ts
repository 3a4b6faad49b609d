import { BoxkiteError } from '@boxkite/protocol';
import type {
  AccountHistory,
  Clock,
  FinishedQuery,
  ManagerLimits,
  NewSandboxRow,
  SandboxRow,
  SessionStore,
} from '../src/index.ts';

/** A clock that moves when it is told to. */
export class FakeClock implements Clock {
  boot = 'boot-1';
  #wall = Date.UTC(2026, 0, 15);
  #monotonic = 1000;
  #timers = new Set<{ readonly at: number; readonly callback: () => void }>();

  wall(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  timer(ms: number, callback: () => void): () => void {
    const timer = { at: this.#monotonic + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Time passes, and what was waiting for it is called, in order. */
  pass(ms: number): void {
    const end = this.#monotonic + ms;
    while (true) {
      const next = [...this.#timers].sort((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > end) break;
      this.#timers.delete(next);
      this.#move(Math.max(0, next.at - this.#monotonic));
      next.callback();
    }
    this.#move(end - this.#monotonic);
  }

  /** Somebody sets the wall clock. */
  jump(ms: number): void {
    this.#wall += ms;
  }

  /** The process ends: nothing is called any more. */
  forgetTimers(): void {
    this.#timers.clear();
  }

  #move(ms: number): void {
    this.#monotonic += ms;
    this.#wall += ms;
  }
}

/** Rows in memory. It outlives managers, as a file does; `full` refuses writes. */
export class MemoryStore implements SessionStore {
  readonly rows = new Map<string, SandboxRow>();
  full = false;
  reads = 0;
  /** Called before each write: may wait, or throw. */
  before: () => Promise<void> | void = () => undefined;
  #seq = 0;

  async insert(rows: readonly NewSandboxRow[]): Promise<readonly SandboxRow[]> {
    await this.#write();
    return rows.map((row) => {
      this.#seq += 1;
      const stored = { ...row, seq: this.#seq };
      this.rows.set(row.id, stored);
      return stored;
    });
  }

  async update(row: SandboxRow, version: number): Promise<boolean> {
    await this.#write();
    if (this.rows.get(row.id)?.version !== version) return false;
    this.rows.set(row.id, row);
    return true;
  }

  async get(id: string): Promise<SandboxRow | undefined> {
    this.reads += 1;
    return this.rows.get(id);
  }

  async unfinished(): Promise<readonly SandboxRow[]> {
    return this.#sorted().filter(({ destroyed_at }) => destroyed_at === null);
  }

  async finished({ account, after, limit }: FinishedQuery): Promise<readonly SandboxRow[]> {
    return this.#sorted()
      .filter((row) => row.destroyed_at !== null && row.seq > after && (account === null || row.account === account))
      .slice(0, limit ?? undefined);
  }

  async account(account: string, since: number): Promise<AccountHistory> {
    const own = this.#sorted().filter((row) => row.account === account);
    const ms = own.map(({ destroyed_at, created_at }) =>
      destroyed_at === null ? 0 : Math.max(0, destroyed_at - Math.max(created_at, since)),
    );
    return { created: own.length, finished_ms: ms.reduce((a, b) => a + b, 0) };
  }

  async forget(before: number): Promise<void> {
    for (const row of this.#sorted()) {
      if (row.destroyed_at !== null && row.destroyed_at < before) this.rows.delete(row.id);
    }
  }

  #sorted(): SandboxRow[] {
    return [...this.rows.values()].sort((a, b) => a.seq - b.seq);
  }

  async #write(): Promise<void> {
    await this.before();
    if (this.full) throw new BoxkiteError('state_unavailable', 'the disk is full');
  }
}

export const limits: ManagerLimits = {
  total: 8,
  perAccount: 4,
  defaultLifetimeMinutes: 30,
  maxLifetimeMinutes: 10_000,
  retentionDays: 31,
};

/** Lets everything go on that waits for nothing but its turn. */
export async function settle(): Promise<void> {
  for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve));
}
