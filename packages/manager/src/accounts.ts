import type { v1 } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { Clock } from './clock.ts';
import type { Session } from './session.ts';
import type { AccountHistory, SessionStore } from './store.ts';

const HOUR = 3_600_000;
const LONGEST_MONTH_HOURS = 744;

/** How many sandboxes there may be at once. A stopped one counts: it holds a workspace. */
export interface CapacityLimits {
  readonly total: number;
  readonly perAccount: number;
}

interface Account {
  /** Sandboxes that are not finished, and places that are reserved. */
  live: number;
  /** Absent until somebody asked for it. */
  history: Promise<AccountHistory> | undefined;
  /** Since the history was read. */
  created: number;
  finishedMs: number;
  month: number;
}

/** Counts sandboxes in memory, so that reserving a place is one step that nothing can come between. */
export class Accounts {
  readonly #accounts = new Map<string, Account>();
  readonly #limits: CapacityLimits;
  readonly #store: SessionStore;
  readonly #clock: Clock;
  #total = 0;

  constructor(limits: CapacityLimits, store: SessionStore, clock: Clock) {
    this.#limits = limits;
    this.#store = store;
    this.#clock = clock;
  }

  /** Takes places for new sandboxes. Errors: `concurrent_sandbox_limit_reached`, `global_capacity_reached`. */
  reserve(account: string, count: number): void {
    const own = this.#of(account);
    const { perAccount, total } = this.#limits;
    if (own.live + count > perAccount) {
      throw new BoxkiteError(
        'concurrent_sandbox_limit_reached',
        `the account has ${own.live} of at most ${perAccount} sandboxes, and ${count} more were asked for`,
        { details: { limit: perAccount, active: own.live } },
      );
    }
    if (this.#total + count > total) {
      throw new BoxkiteError(
        'global_capacity_reached',
        `there are ${this.#total} of at most ${total} sandboxes, and ${count} more were asked for`,
        { details: { limit: total, active: this.#total } },
      );
    }
    this.adopt(account, count);
  }

  /** Counts sandboxes that exist already, whatever the limits are now. */
  adopt(account: string, count: number): void {
    this.#of(account).live += count;
    this.#total += count;
  }

  /** Gives places back. */
  release(account: string, count: number): void {
    const own = this.#of(account);
    own.live -= count;
    this.#total -= count;
    if (own.live === 0 && own.history === undefined) this.#accounts.delete(account);
  }

  /** Counts sandboxes that the store took. */
  created(account: string, count: number): void {
    this.#of(account).created += count;
  }

  /** Counts the time of one that is finished. */
  finished(account: string, createdAt: number, finishedAt: number): void {
    const own = this.#of(account);
    own.finishedMs += Math.max(0, finishedAt - Math.max(createdAt, own.month));
  }

  /** The reference's summary. Errors: `state_unavailable`. */
  async usage(account: string, live: Iterable<Session>): Promise<v1.UsageSummary> {
    const now = this.#clock.wall();
    const month = startOfMonth(now);
    const own = this.#of(account);
    if (own.history === undefined || own.month !== month) {
      own.month = month;
      own.created = 0;
      own.finishedMs = 0;
      own.history = this.#store.account(account, month);
      own.history.catch(() => {
        own.history = undefined;
      });
    }
    const history = await own.history;
    let ms = history.finished_ms + own.finishedMs;
    for (const { row } of live) {
      if (row.account === account) ms += Math.max(0, now - Math.max(row.created_at, month));
    }
    return {
      monthly_sandbox_hours_used: Math.round((ms / HOUR) * 10_000) / 10_000,
      monthly_sandbox_hours_limit: this.#limits.perAccount * LONGEST_MONTH_HOURS,
      concurrent_sandboxes: own.live,
      concurrent_sandboxes_limit: this.#limits.perAccount,
      total_sandboxes_created: history.created + own.created,
    };
  }

  #of(account: string): Account {
    let own = this.#accounts.get(account);
    if (own === undefined) {
      own = { live: 0, history: undefined, created: 0, finishedMs: 0, month: startOfMonth(this.#clock.wall()) };
      this.#accounts.set(account, own);
    }
    return own;
  }
}

function startOfMonth(ms: number): number {
  const date = new Date(ms);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
}
