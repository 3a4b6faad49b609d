import { denseBeginning, denseLength, type FormBeginning, unbrokenBeginnings } from './form-beginning.ts';
import { isSpace, type KnownPattern } from './known-pattern.ts';
import type { UnitBuffer } from './unit-buffer.ts';

/** Units that are looked at together. */
const GRAM = 4;
const LONGEST_WINDOW = 16;
/** Bits of an entry: the safe step, and what its grams are. */
const STEP = 31;
/** A form begins with it. */
const STARTS = 32;
/** It is near the beginning of a form, without the form's white space. */
const DENSE = 64;
/** A form without its white space begins with it. */
const DENSE_STARTS = 128;

const FEWEST_BITS = 16;
const MOST_BITS = 20;
/** Entries a gram, so that few of the others meet the entry of one. */
const ENTRIES_A_GRAM = 16;
/** Units that are searched for a line break at once: what is found is used up before the search goes on. */
const LINE_REACH = 128;

/**
 * Finds where text stops being clean: where the automaton has to look. It reads four of about sixteen units
 * (Wu-Manber over groups of four) and every line break; it may stop for nothing, but skips no hit.
 *
 * A hit without a line break in its first `reach` units begins with one of the form's `unbrokenBeginnings`: the steps
 * find it, since its grams are in the table with their distance to the end of the window. In any other hit the first
 * run of white space with a line break has one to `reach - 1` units of it before itself; with all white space left
 * out, either the two units before the run and the two behind it are a gram of the form's first `reach + 1` units, or
 * only one unit is before it, and begins a form with the three behind.
 */
export class CleanFilter {
  /** Units of a beginning that are looked at. */
  readonly reach: number;
  /** Set by `skip`: the automaton must not be left while it is in what begins at this index or before. */
  barrier = 0;
  readonly #step: number;
  readonly #shift: number;
  readonly #table: Uint8Array;

  private constructor(reach: number, patterns: readonly KnownPattern[]) {
    this.reach = reach;
    this.#step = reach - GRAM + 1;
    const beginnings = patterns.flatMap((pattern) => unbrokenBeginnings(pattern, reach));
    let bits = FEWEST_BITS;
    while (bits < MOST_BITS && 1 << bits < beginnings.length * this.#step * ENTRIES_A_GRAM) bits += 1;
    this.#shift = 32 - bits;
    this.#table = new Uint8Array(1 << bits).fill(this.#step);
    for (const unbroken of beginnings) this.#addUnbroken(unbroken);
    for (const pattern of patterns) this.#addDense(denseBeginning(pattern, reach + 1));
  }

  /** The filter for `patterns`, or `undefined` if one of them is too short for it. */
  static build(patterns: readonly KnownPattern[]): CleanFilter | undefined {
    let shortest = LONGEST_WINDOW + 1;
    for (const { low } of patterns) shortest = Math.min(shortest, denseLength(low, shortest));
    return shortest > GRAM ? new CleanFilter(shortest - 1, patterns) : undefined;
  }

  /** The first index from `from` on where a hit may begin that the text does not rule out; sets `barrier`. */
  skip(buffer: UnitBuffer, from: number): number {
    const { narrow, words, length } = buffer;
    let at = from;
    for (;;) {
      const limit = Math.min(length, at + LINE_REACH);
      const lineEnd = lineBreak(narrow, words, at, limit);
      at = this.#skipInLine(narrow, at, lineEnd);
      this.barrier = at;
      if (at + this.reach <= lineEnd) return at;
      if (lineEnd < limit) {
        const next = textFrom(narrow, lineEnd + 1, length);
        if (this.#mayStraddle(narrow, at, lineEnd, next, length)) {
          this.barrier = lineEnd;
          return at;
        }
        at = next;
      } else if (limit === length) return at;
    }
  }

  /**
   * The first index from `at` on where a form may begin, or the first one whose window does not end by `end`. The
   * usual step is a constant of the loop: so the processor goes on before it has seen the entry.
   */
  #skipInLine(narrow: Uint8Array, from: number, end: number): number {
    const table = this.#table;
    const shift = this.#shift;
    const step = this.#step;
    const last = end - this.reach;
    let at = from;
    while (at <= last) {
      const behind = at + step - 1;
      const entry = table[
        hash(
          narrow[behind] as number,
          narrow[behind + 1] as number,
          narrow[behind + 2] as number,
          narrow[behind + 3] as number,
        ) >>> shift
      ] as number;
      if (entry === step) {
        at += step;
      } else if ((entry & STEP) !== 0) {
        at += entry & STEP;
      } else {
        const first = this.#entry(narrow, at, at + 1, at + 2, at + 3);
        if ((first & STARTS) !== 0) return at;
        at += 1;
      }
    }
    return at;
  }

  /** Whether a hit may begin at `from` or behind it and go on over the line break at `lineEnd` to the text at `next`. */
  #mayStraddle(narrow: Uint8Array, from: number, lineEnd: number, next: number, to: number): boolean {
    const one = textBefore(narrow, lineEnd - 1, from);
    if (one < from) return false;
    const third = textFrom(narrow, next + 1, to);
    const fourth = textFrom(narrow, third + 1, to);
    if (fourth >= to) return true;
    if ((this.#entry(narrow, one, next, third, fourth) & DENSE_STARTS) !== 0) return true;
    const two = textBefore(narrow, one - 1, from);
    return two >= from && (this.#entry(narrow, two, one, next, third) & DENSE) !== 0;
  }

  #entry(narrow: Uint8Array, one: number, two: number, three: number, four: number): number {
    const key = hash(narrow[one] as number, narrow[two] as number, narrow[three] as number, narrow[four] as number);
    return this.#table[key >>> this.#shift] as number;
  }

  #addUnbroken(beginning: FormBeginning): void {
    for (let offset = 0; offset < this.#step; offset += 1) {
      const left = this.#step - 1 - offset;
      for (const index of this.#entriesOf(beginning, offset)) {
        const entry = this.#table[index] as number;
        const step = Math.min(entry & STEP, left);
        this.#table[index] = (entry & ~STEP) | step | (offset === 0 ? STARTS : 0);
      }
    }
  }

  #addDense(beginning: FormBeginning): void {
    for (let offset = 0; offset + GRAM <= beginning.low.length; offset += 1) {
      const flags = offset === 0 ? DENSE | DENSE_STARTS : DENSE;
      for (const index of this.#entriesOf(beginning, offset))
        this.#table[index] = (this.#table[index] as number) | flags;
    }
  }

  /** Indices of a gram in all its spellings. */
  *#entriesOf({ low, high }: FormBeginning, offset: number): Generator<number> {
    for (let choice = 0; choice < 1 << GRAM; choice += 1) {
      const unit = (index: number): number => ((choice & (1 << index) ? high : low)[offset + index] ?? 0) as number;
      const differs = (index: number): boolean => low[offset + index] !== high[offset + index];
      if ([0, 1, 2, 3].some((index) => (choice & (1 << index)) !== 0 && !differs(index))) continue;
      yield hash(unit(0), unit(1), unit(2), unit(3)) >>> this.#shift;
    }
  }
}

function hash(one: number, two: number, three: number, four: number): number {
  return Math.imul(one | (two << 8) | (three << 16) | (four << 24), 0x9e3779b1);
}

/** Index of the first LF in `narrow[from..to)`, `to` if there is none. */
function lineBreak(narrow: Uint8Array, words: Int32Array, from: number, to: number): number {
  let at = from;
  for (; (at & 3) !== 0; at += 1) if (at >= to || narrow[at] === 0x0a) return Math.min(at, to);
  let word = at >> 2;
  const end = to >> 2;
  while (word < end) {
    const zeros = (words[word] as number) ^ 0x0a0a0a0a;
    if (((zeros - 0x01010101) & ~zeros & 0x80808080) !== 0) break;
    word += 1;
  }
  at = word << 2;
  while (at < to && narrow[at] !== 0x0a) at += 1;
  return at;
}

/** First index from `from` on without white space, or `to` or more. */
function textFrom(narrow: Uint8Array, from: number, to: number): number {
  let index = from;
  while (index < to && isSpace(narrow[index] as number)) index += 1;
  return index;
}

/** Last index down from `from` without white space, or less than `least`. */
function textBefore(narrow: Uint8Array, from: number, least: number): number {
  let index = from;
  while (index >= least && isSpace(narrow[index] as number)) index -= 1;
  return index;
}
