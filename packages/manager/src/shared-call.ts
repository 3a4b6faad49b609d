/** One dear call for all who ask for its answer at about the same time. */

/** An answer is given again for so many times as long as it took: whoever asks, others get most of the time. */
const REST = 4;

/** Shares the answers of a call. */
export class SharedCall<T> {
  readonly #call: () => Promise<T>;
  readonly #now: () => number;
  #answer: Promise<T> | null = null;
  /** Until when the answer is given again; `null` while it is being made. */
  #until: number | null = null;

  /** `now`: ms of a clock that only goes forward. */
  constructor(call: () => Promise<T>, now: () => number) {
    this.#call = call;
    this.#now = now;
  }

  /** Errors: those of the call, which are not given again. */
  get(): Promise<T> {
    const begun = this.#now();
    if (this.#answer !== null && (this.#until === null || begun < this.#until)) return this.#answer;
    const answer = this.#call();
    this.#answer = answer;
    this.#until = null;
    answer.then(
      () => {
        const ended = this.#now();
        this.#until = ended + REST * (ended - begun);
      },
      () => {
        this.#answer = null;
      },
    );
    return answer;
  }
}
