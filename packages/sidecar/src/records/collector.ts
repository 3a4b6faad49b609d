/** Keeps the first and the last bytes of a stream for the answer of a collected exec. */
export class Collector {
  readonly #head: number;
  readonly #tail: number;
  #first: Uint8Array[] = [];
  #firstBytes = 0;
  #last: Uint8Array[] = [];
  #lastBytes = 0;
  #truncated = false;

  constructor(window: { readonly head: number; readonly tail: number }) {
    this.#head = window.head;
    this.#tail = window.tail;
  }

  /** Whether bytes between the first and the last ones are missing. */
  get truncated(): boolean {
    return this.#truncated;
  }

  push(data: Uint8Array): void {
    const first = this.#truncated ? 0 : Math.min(data.length, this.#head - this.#firstBytes);
    if (first > 0) {
      this.#first.push(data.subarray(0, first));
      this.#firstBytes += first;
    }
    if (first === data.length) return;
    const rest = data.subarray(first);
    this.#last.push(rest);
    this.#lastBytes += rest.length;
    // At twice the bound, so that each byte is moved at most once on average.
    if (this.#lastBytes > 2 * this.#tail) this.#cut();
  }

  /** Bytes are missing here. */
  gap(): void {
    this.#truncated = true;
    this.#last = [];
    this.#lastBytes = 0;
  }

  finish(): Uint8Array {
    if (this.#lastBytes > this.#tail) this.#cut();
    const [only] = this.#first;
    if (this.#lastBytes === 0 && this.#first.length === 1 && only !== undefined) return only;
    return Buffer.concat([...this.#first, ...this.#last], this.#firstBytes + this.#lastBytes);
  }

  #cut(): void {
    const all = Buffer.concat(this.#last, this.#lastBytes);
    // A copy of its own: a view would hold all of it.
    const kept = Buffer.from(all.subarray(all.length - this.#tail));
    this.#last = [kept];
    this.#lastBytes = kept.length;
    this.#truncated = true;
  }
}
