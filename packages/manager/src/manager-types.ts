import type { SandboxSummary } from '@boxkite/protocol';
import type { CapacityLimits } from './accounts.ts';
import type { Clock } from './clock.ts';
import type { Report } from './lifecycle.ts';
import type { SessionStore } from './store.ts';
import type { Substrate } from './substrate.ts';

/** What a manager may hand out. */
export interface ManagerLimits extends CapacityLimits {
  readonly defaultLifetimeMinutes: number;
  readonly maxLifetimeMinutes: number;
  /** For so long the records of finished sandboxes can be read. */
  readonly retentionDays: number;
}

/** What a manager is made of. */
export interface ManagerParts {
  readonly substrate: Substrate;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly limits: ManagerLimits;
  readonly report: Report;
}

/** Which sandboxes are listed. */
export interface ListQuery {
  /** Without those of which nothing is left. */
  readonly activeOnly: boolean;
  /** At most so many; `null`: all. */
  readonly limit: number | null;
  /** `next` of the page before. */
  readonly after: number;
}

/** A page of a list, in the order of creation. */
export interface Page {
  readonly sandboxes: readonly SandboxSummary[];
  /** Where the next page begins; `null` where there is none. */
  readonly next: number | null;
}
