/** How many calls may start something in one use of a sandbox, and how long they may take in all. */
import { BoxkiteError } from '@boxkite/protocol';
import { z } from 'zod';
import type { SessionCore, SessionPart } from './part.ts';

const keptSchema = z.object({
  calls: z.number(),
  seconds: z.number(),
  spent: z.object({ reason: z.enum(['exec_count', 'exec_seconds']), used: z.number() }).nullable(),
  /** When each call under way began, ms since 1970. */
  open: z.array(z.number()),
});

type Kept = z.output<typeof keptSchema>;

/** The time of a call is kept with the next one, or so much later. Until then it is kept as one that is under way. */
const KEEP_AFTER_MS = 20;

/**
 * Counts calls and the time that they take, as a clock on the wall has it. Once a limit is passed every call is refused, until
 * the next use begins. A call is kept, with its beginning, before it is answered: a restart of this process forgives none, and
 * one that the restart cuts counts up to then.
 */
export class Budget implements SessionPart {
  readonly #core: Pick<SessionCore, 'settings' | 'save'>;
  readonly #endAll: () => Promise<void>;
  #calls = 0;
  #seconds = 0;
  #spent: Kept['spent'] = null;
  /** What ran has been ended. */
  #ended: Promise<void> | null = null;
  /** When each call under way began. */
  #open = new Set<{ readonly began: number }>();
  #timer: NodeJS.Timeout | null = null;
  /** Rises with each use: a call counts for its own one alone. */
  #use = 0;

  /** `endAll` ends what the parts of the session run. */
  constructor(core: Pick<SessionCore, 'settings' | 'save' | 'found'>, endAll: () => Promise<void>) {
    this.#core = core;
    this.#endAll = endAll;
    const found = keptSchema.safeParse(core.found('budget'));
    if (!found.success) return;
    const { calls, seconds, spent, open } = found.data;
    const now = Date.now();
    this.#calls = calls;
    this.#seconds = open.reduce((sum, began) => sum + Math.max(0, now - began) / 1000, seconds);
    this.#spent = spent;
    // The end of what ran may have been cut; the other parts are there by then.
    if (spent !== null) setImmediate(() => void this.#endRest().catch(ignore));
  }

  kept(): Kept | undefined {
    if (this.#isOff) return undefined;
    const open = Array.from(this.#open, ({ began }) => began);
    return { calls: this.#calls, seconds: this.#seconds, spent: this.#spent, open };
  }

  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  reset(): void {
    this.#use += 1;
    this.#calls = 0;
    this.#seconds = 0;
    this.#spent = null;
    this.#ended = null;
    this.#open = new Set();
  }

  /** Whether what runs has been ended, or is being. A call that was counted before ends what it starts after that itself. */
  get isSpent(): boolean {
    return this.#spent !== null;
  }

  /** Counts a call whose work goes on after its answer. Errors: `session_budget_exceeded`. */
  async reserve(): Promise<void> {
    const refusal = this.#count();
    if (refusal !== null) throw await this.#refuse(refusal);
    if (!this.#isOff) await this.#core.save();
  }

  /** Counts a call and the time of its work. Errors: `session_budget_exceeded`, before the work or instead of its result. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const refusal = this.#count();
    if (refusal !== null) throw await this.#refuse(refusal);
    if (this.#isOff) return work();
    const [use, open] = [this.#use, this.#open];
    const call = { began: Date.now() };
    open.add(call);
    // Beside the work, which takes longer.
    const kept = this.#core.save();
    kept.catch(ignore);
    const from = performance.now();
    try {
      return await work();
    } finally {
      // Both at once, and also where its beginning could not be kept: what is kept from now on counts it once.
      open.delete(call);
      if (use === this.#use) this.#took((performance.now() - from) / 1000);
      await kept;
      if (use === this.#use) await this.#checkTime();
    }
  }

  #took(seconds: number): void {
    this.#seconds += seconds;
    this.#keepSoon();
  }

  async #checkTime(): Promise<void> {
    if (!this.#isOverTime()) return;
    const spent = { reason: 'exec_seconds', used: rounded(this.#seconds) } as const;
    this.#spent ??= spent;
    throw await this.#refuse(spent);
  }

  #keepSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#core.save().catch(ignore);
    }, KEEP_AFTER_MS).unref();
  }

  get #isOff(): boolean {
    const { execs, seconds } = this.#core.settings.budget;
    return execs === 0 && seconds === 0;
  }

  #isOverTime(): boolean {
    const { seconds } = this.#core.settings.budget;
    return seconds > 0 && this.#seconds > seconds;
  }

  /** Nothing is awaited between the look and the count. The answer is why the call is refused. */
  #count(): Kept['spent'] {
    const { execs } = this.#core.settings.budget;
    if (this.#spent === null && this.#isOverTime()) {
      this.#spent = { reason: 'exec_seconds', used: rounded(this.#seconds) };
    }
    if (this.#spent === null && execs > 0 && this.#calls >= execs) {
      this.#spent = { reason: 'exec_count', used: this.#calls };
    }
    if (this.#spent === null) this.#calls += 1;
    return this.#spent;
  }

  /** The answer to a refused call, once nothing runs that the budget had paid for. */
  async #refuse({ reason, used }: NonNullable<Kept['spent']>): Promise<BoxkiteError> {
    await this.#endRest();
    const { execs, seconds } = this.#core.settings.budget;
    const limit = reason === 'exec_count' ? execs : seconds;
    const message =
      reason === 'exec_count'
        ? `this session has made all ${limit} of the calls that it may make`
        : `this session has used ${used} of its ${limit} seconds`;
    return new BoxkiteError('session_budget_exceeded', message, { details: { reason, limit, used } });
  }

  /** Once for each use; again where it failed. */
  #endRest(): Promise<void> {
    this.#ended ??= this.#endOnce();
    return this.#ended;
  }

  async #endOnce(): Promise<void> {
    const use = this.#use;
    try {
      if (!this.#isOff) await this.#core.save();
      await this.#endAll();
    } catch (error) {
      if (use === this.#use) this.#ended = null;
      throw error;
    }
  }
}

/** To the millisecond. */
function rounded(seconds: number): number {
  return Math.round(seconds * 1000) / 1000;
}

function ignore(): void {
  // The next save has it too.
}
