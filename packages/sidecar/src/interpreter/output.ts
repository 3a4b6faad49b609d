/** What a call writes to its standard output and error, in one order. */

/** Output of one call at a time; what comes between calls belongs to none. */
export class OutputReader {
  #most = 0;
  #kept: Buffer[] = [];
  #bytes = 0;
  #isCut = false;

  /** A call begins, of whose output so many bytes are kept. */
  begin(mostBytes: number): void {
    this.#most = mostBytes;
    this.#kept = [];
    this.#bytes = 0;
    this.#isCut = false;
  }

  push(data: Uint8Array): void {
    const room = this.#most - this.#bytes;
    if (data.length > room) this.#isCut = true;
    if (room <= 0) return;
    // A copy: the bytes are another's when this returns.
    const kept = Buffer.from(data.subarray(0, room));
    this.#bytes += kept.length;
    this.#kept.push(kept);
  }

  /** Bytes that the runner has dropped while nobody read. */
  gap(): void {
    this.#isCut = true;
  }

  /** The first bytes of the call, and whether there was more. */
  end(): { readonly bytes: Buffer; readonly truncated: boolean } {
    const found = { bytes: Buffer.concat(this.#kept), truncated: this.#isCut };
    this.begin(0);
    return found;
  }
}
