/** The output that `programs/producer.py` writes, and the check that it arrived byte for byte. */

/** A prime, so that a lost or doubled buffer of any usual size shifts what follows. */
export const BLOCK_BYTES = 1_048_573;

const STAMP_BYTES = 17;
const FIRST_TEXT = 4096;
const TEXT_STEP = 50_000;

/** One block with number 0 and the texts at their places, as the producer builds it. */
export function buildBlock(texts: readonly string[]): Buffer {
  const line = Buffer.from(Array.from({ length: 95 }, (_, index) => (index === 94 ? 10 : 33 + index)));
  const block = Buffer.alloc(BLOCK_BYTES, line);
  for (const [index, text] of texts.entries()) block.write(text, FIRST_TEXT + index * TEXT_STEP, 'latin1');
  stamp(block, 0);
  return block;
}

function stamp(block: Buffer, number: number): void {
  block.write(`${String(number).padStart(STAMP_BYTES - 1, '0')}\n`, 0, 'latin1');
}

/** Checks a stream against repeated, numbered blocks: one comparison of memory per piece, the same on both sides. */
export class PatternCheck {
  readonly #block: Buffer;
  #number = 0;
  #at = 0;
  #total = 0;

  /** @param block what each block is expected to be, apart from its number */
  constructor(block: Buffer) {
    this.#block = Buffer.from(block);
    stamp(this.#block, 0);
  }

  /** Bytes checked so far. */
  get total(): number {
    return this.#total;
  }

  /** Throws TypeError at the first piece that differs. */
  push(data: Uint8Array): void {
    let from = 0;
    while (from < data.length) {
      const length = Math.min(data.length - from, this.#block.length - this.#at);
      if (this.#block.compare(data, from, from + length, this.#at, this.#at + length) !== 0)
        throw new TypeError(`the output differs between the bytes ${this.#total} and ${this.#total + length}`);
      from += length;
      this.#at += length;
      this.#total += length;
      if (this.#at === this.#block.length) {
        this.#number += 1;
        this.#at = 0;
        stamp(this.#block, this.#number);
      }
    }
  }

  /** Throws TypeError unless exactly this many whole blocks came. */
  finish(blocks: number): void {
    if (this.#number !== blocks || this.#at !== 0)
      throw new TypeError(`the output has ${this.#number} blocks and ${this.#at} bytes instead of ${blocks} blocks`);
  }
}
