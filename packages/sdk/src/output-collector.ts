/** Keeps the first and the last bytes of one stream of output within a cap. */
export class OutputCollector {
  readonly #headCap: number;
  readonly #tailCap: number;
  readonly #head: Uint8Array[] = [];
  #headBytes = 0;
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #truncated = false;

  /** `cap` in bytes: the first half is kept from the start, the rest from the end. */
  constructor(cap: number) {
    this.#headCap = Math.ceil(cap / 2);
    this.#tailCap = cap - this.#headCap;
  }

  /** Whether bytes are missing between the first and the last ones. */
  get truncated(): boolean {
    return this.#truncated;
  }

  push(data: Uint8Array): void {
    const room = this.#headCap - this.#headBytes;
    const first = room > 0 ? data.subarray(0, room) : data.subarray(0, 0);
    if (first.length > 0) {
      this.#head.push(first);
      this.#headBytes += first.length;
    }
    const rest = data.subarray(first.length);
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    // Trimmed only at twice the cap, so that each byte is moved at most once on average.
    if (this.#tailBytes > 2 * this.#tailCap) this.#trim();
  }

  /** Bytes were dropped before they came here. */
  gap(): void {
    this.#truncated = true;
  }

  /** The kept bytes, first then last. */
  finish(): Uint8Array {
    if (this.#tailBytes > this.#tailCap) this.#trim();
    return join([...this.#head, ...this.#tail], this.#headBytes + this.#tailBytes);
  }

  #trim(): void {
    const all = join(this.#tail, this.#tailBytes);
    const kept = all.slice(all.length - this.#tailCap);
    this.#tail = [kept];
    this.#tailBytes = kept.length;
    this.#truncated = true;
  }
}

function join(parts: readonly Uint8Array[], length: number): Uint8Array {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
