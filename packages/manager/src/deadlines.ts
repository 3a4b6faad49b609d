import type { Clock } from './clock.ts';

/** Longest sleep: what could not be done is tried again at least this often. */
const LONGEST_MS = 5_000;

/** One timer for all deadlines: it looks again when the next one has come. */
export class Deadlines {
  readonly #clock: Clock;
  /** Does what is due and returns the next deadline in monotonic ms, or Infinity. */
  readonly #look: () => number;
  #cancel: (() => void) | null = null;
  #at = Number.POSITIVE_INFINITY;
  #stopped = false;

  constructor(clock: Clock, look: () => number) {
    this.#clock = clock;
    this.#look = look;
  }

  /** A deadline that may be earlier than those known. */
  expect(deadline: number): void {
    if (this.#stopped || deadline >= this.#at) return;
    this.#arm(deadline);
  }

  /** Looks now, and from now on by itself. */
  run(): void {
    if (!this.#stopped) this.#arm(this.#look());
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  #arm(deadline: number): void {
    this.#cancel?.();
    const now = this.#clock.monotonic();
    const wait = Math.min(Math.max(0, deadline - now), LONGEST_MS);
    this.#at = now + wait;
    this.#cancel = this.#clock.timer(wait, () => this.run());
  }
}
