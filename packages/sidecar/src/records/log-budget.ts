/** Bytes of output that the records of one sandbox keep in all. */

/** A long log of a busy sandbox gets at least so much. */
const LEAST_BYTES = 256 * 1024;

/** Who can give way: the oldest first. */
export interface Givers {
  /** Lets go of the output of the oldest ended record that has any; `false` where there is none. */
  giveWay(): boolean;
}

/** Shares out a fixed number of bytes. */
export class LogBudget {
  readonly #limit: number;
  readonly #givers: Givers;
  #used = 0;

  constructor(limit: number, givers: Givers) {
    this.#limit = limit;
    this.#givers = givers;
  }

  /** Bytes for a running log that wants so many; ended ones give way to it. */
  reserve(wanted: number): number {
    this.#makeRoom(wanted);
    const granted = Math.min(wanted, Math.max(this.#limit - this.#used, LEAST_BYTES));
    this.#used += granted;
    return granted;
  }

  /** Bytes that an ended log keeps; older ones give way to it. */
  add(bytes: number): void {
    this.#used += bytes;
    this.#makeRoom(0);
  }

  release(bytes: number): void {
    this.#used -= bytes;
  }

  #makeRoom(wanted: number): void {
    while (this.#used + wanted > this.#limit && this.#givers.giveWay());
  }
}
