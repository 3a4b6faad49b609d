import { FilteredText } from './pair-filter.ts';
import { nextTrigger, textTrigger } from './triggers.ts';

/** A piece of a stream, as the scanner of patterns reads it. */
export interface PatternSource {
  readonly length: number;
  /** The first index from `from` on at which a line has to be looked at, or -1. */
  trigger(from: number): number;
  /** The first newline from `from` on, or -1. */
  newline(from: number): number;
  /** The last newline before an index, or -1. */
  newlineBefore(index: number): number;
  /** The text between two indices; each byte is one character. */
  text(from: number, to: number): string;
}

/** What was found last, so that nothing is searched twice. */
class Found {
  readonly #find: (from: number) => number;
  #from = 0;
  /** The first one from `#from` on; -1: none. */
  #at = -2;

  constructor(find: (from: number) => number) {
    this.#find = find;
  }

  at(from: number): number {
    if (this.#at === -2 || from < this.#from || (this.#at >= 0 && from > this.#at)) {
      this.#at = this.#find(from);
      this.#from = from;
    }
    return this.#at;
  }
}

/** A piece of decoded text. */
export class TextSource implements PatternSource {
  readonly #trigger = new Found((from) => textTrigger(this.#text, from));
  readonly #newline = new Found((from) => this.#text.indexOf('\n', from));
  readonly #text: string;
  readonly length: number;

  constructor(text: string) {
    this.#text = text;
    this.length = text.length;
  }

  trigger(from: number): number {
    return this.#trigger.at(from);
  }

  newline(from: number): number {
    return this.#newline.at(from);
  }

  newlineBefore(index: number): number {
    return index === 0 ? -1 : this.#text.lastIndexOf('\n', index - 1);
  }

  text(from: number, to: number): string {
    return this.#text.slice(from, to);
  }
}

const NEWLINE = 0x0a;
/** Arguments of one call. */
const BLOCK = 8192;

/** A piece of bytes. */
export class ByteSource implements PatternSource {
  readonly #bytes: Uint8Array;
  readonly #filtered: FilteredText;
  readonly #trigger = new Found((from) => nextTrigger(this.#filtered, from));
  readonly #newline = new Found((from) => this.#bytes.indexOf(NEWLINE, from));
  readonly length: number;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#filtered = new FilteredText(bytes);
    this.length = bytes.length;
  }

  trigger(from: number): number {
    return this.#trigger.at(from);
  }

  newline(from: number): number {
    return this.#newline.at(from);
  }

  newlineBefore(index: number): number {
    return index === 0 ? -1 : this.#bytes.lastIndexOf(NEWLINE, index - 1);
  }

  text(from: number, to: number): string {
    let text = '';
    for (let at = from; at < to; at += BLOCK) {
      // Without an iterator, which a spread would have.
      text += String(Reflect.apply(String.fromCharCode, undefined, this.#bytes.subarray(at, Math.min(at + BLOCK, to))));
    }
    return text;
  }
}
