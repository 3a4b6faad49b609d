/** Tells when a thing that is used call by call has not been used for a while. It keeps no process from ending. */
export class IdleTimer {
  readonly #ms: number;
  readonly #onIdle: () => void;
  #inUse = 0;
  #idleSince = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(ms: number, onIdle: () => void) {
    this.#ms = ms;
    this.#onIdle = onIdle;
  }

  /** A call begins; the returned function is called once, at its end. */
  use(): () => void {
    this.#inUse += 1;
    return () => {
      this.#inUse -= 1;
      if (this.#inUse > 0) return;
      this.#idleSince = performance.now();
      // One timer at a time: it looks again when it is due, so that a call costs no timer of its own.
      if (this.#timer === null) this.#arm(this.#ms);
    };
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => this.#look(), ms).unref();
  }

  #look(): void {
    this.#timer = null;
    // The end of the call that is under way arms it again.
    if (this.#inUse > 0) return;
    const left = this.#ms - (performance.now() - this.#idleSince);
    if (left > 0) this.#arm(Math.ceil(left));
    else this.#onIdle();
  }
}
