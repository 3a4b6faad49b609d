/** Text on its way to a file agent, as UTF-8. It is encoded piece by piece into memory that is used again. */
export class TextBytes {
  readonly #text: string;
  /** Units of the text that are encoded. */
  #at = 0;
  #length = 0;

  /** Lone surrogates become U+FFFD. */
  constructor(text: string) {
    this.#text = text;
  }

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  /** All of it, where that is at most so many bytes and nothing was taken before; else `null`, and nothing is taken. */
  whole(most: number): Buffer | null {
    const text = this.#text;
    if (this.#at > 0 || text.length > most || Buffer.byteLength(text) > most) return null;
    const bytes = Buffer.from(text);
    this.#at = text.length;
    this.#length = bytes.length;
    return bytes;
  }

  /** Writes the next of it, as much as fits and at least one byte; 0: nothing is left. `memory` has at least 4 bytes. */
  fill(memory: Uint8Array): number {
    const end = this.#at + memory.length;
    // What is cut here may not be half of a character.
    const cut = end < this.#text.length && isHighSurrogate(this.#text.charCodeAt(end - 1)) ? end - 1 : end;
    const { read, written } = encoder.encodeInto(this.#text.slice(this.#at, cut), memory);
    this.#at += read;
    this.#length += written;
    return written;
  }
}

const encoder = new TextEncoder();

function isHighSurrogate(unit: number): boolean {
  return (unit & 0xfc00) === 0xd800;
}
