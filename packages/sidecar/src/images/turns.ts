/** So many at one time, and so many that wait for them. */
import { BoxkiteError } from '@boxkite/protocol';

/** Bounds of what takes turns. */
export interface TurnLimits {
  /** At one time. */
  readonly running: number;
  /** That wait for one of these to end. */
  readonly waiting: number;
}

/** Work on images that takes turns, in the order in which it came. */
export class Turns {
  readonly #limits: TurnLimits;
  readonly #queue: (() => void)[] = [];
  #running = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Does it when it is its turn. Errors: `capacity`, `aborted`, and those of the work. */
  async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(signal);
    try {
      if (signal.aborted) throw cancelled(signal);
      return await work();
    } finally {
      // Whoever is next takes over the place.
      const next = this.#queue.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  /** All that wait have their turn at once; their work is to see that there is none any more. */
  release(): void {
    for (const next of this.#queue.splice(0)) {
      this.#running += 1;
      next();
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(cancelled(signal));
    if (this.#running < this.#limits.running) {
      this.#running += 1;
      return Promise.resolve();
    }
    if (this.#queue.length >= this.#limits.waiting) {
      const details = { limit: 'images', waiting: this.#limits.waiting };
      return Promise.reject(new BoxkiteError('capacity', 'too many images are waiting to be decoded', { details }));
    }
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.#queue.splice(this.#queue.indexOf(next), 1);
        reject(cancelled(signal));
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.push(next);
    });
  }
}

/** What the caller of a call that was cancelled is told. */
export function cancelled(signal: AbortSignal): BoxkiteError {
  return new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
}
