/** Lets other work of this process in between steps that never wait. */
import { setImmediate } from 'node:timers/promises';

const STEPS = 500;

/** A row of such steps. */
export class Turn {
  #steps = 0;

  /** Counts a step; whether it is time for others. */
  isOver(): boolean {
    this.#steps += 1;
    return this.#steps % STEPS === 0;
  }

  /** Resolves when others had theirs. */
  next(): Promise<void> {
    return setImmediate();
  }
}
