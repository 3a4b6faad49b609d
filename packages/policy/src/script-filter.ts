import { type CleanFilter, LINE_REACH } from './clean-filter.ts';
import { ENTRY, type GramTable, hash } from './gram-table.ts';
import { isSpace } from './known-pattern.ts';
import type { UnitBuffer } from './unit-buffer.ts';

/** The filter in JavaScript, for where WebAssembly is not to be had. */
export class ScriptFilter implements CleanFilter {
  readonly reach: number;
  barrier = 0;
  readonly #table: GramTable;

  constructor(table: GramTable) {
    this.reach = table.reach;
    this.#table = table;
  }

  begin(): void {
    // The buffer is read where it is.
  }

  skip({ narrow, words, length }: UnitBuffer, from: number): number {
    let at = from;
    for (;;) {
      let limit = Math.min(length, at + LINE_REACH);
      let lineEnd = lineBreak(narrow, words, at, limit);
      if (lineEnd === limit) {
        limit = textFrom(narrow, limit, length);
        lineEnd = lineBreak(narrow, words, lineEnd, limit);
      }
      // White space before a line break belongs to the break, as may white space at the end of what there is.
      const end = lineEnd < limit || limit === length ? textBefore(narrow, lineEnd - 1, at) + 1 : lineEnd;
      at = skipInLine(this.#table, narrow, at, end);
      this.barrier = at;
      if (at + this.reach <= end) return at;
      if (lineEnd < limit) {
        const next = textFrom(narrow, lineEnd + 1, length);
        if (mayStraddle(this.#table, narrow, at, end, next, length)) {
          this.barrier = end;
          return at;
        }
        at = next;
      } else if (limit === length) return at;
    }
  }
}

/** The first index from `from` on where a form may begin, or the first one whose `reach` units do not end by `end`. */
function skipInLine(table: GramTable, narrow: Uint8Array, from: number, end: number): number {
  const { entries, shift, step } = table;
  const last = end - table.reach;
  let at = from;
  while (at <= last) {
    const gram = at + step - 1;
    const [one, two] = [narrow[gram] as number, narrow[gram + 1] as number];
    const [three, four] = [narrow[gram + 2] as number, narrow[gram + 3] as number];
    const entry = entries[hash(one, two, three, four) >>> shift] as number;
    // The usual step is not read from the entry, so the processor goes on before it has it.
    if (entry === step) at += step;
    else if ((entry & ENTRY.step) !== 0) at += entry & ENTRY.step;
    else if ((entryAt(table, narrow, at, at + 1, at + 2, at + 3) & ENTRY.starts) !== 0) return at;
    else at += 1;
  }
  return at;
}

/** Whether a hit may begin at `from` or behind it and go on over a line break from `end` to the text at `next`. */
function mayStraddle(
  table: GramTable,
  narrow: Uint8Array,
  from: number,
  end: number,
  next: number,
  to: number,
): boolean {
  const one = end - 1;
  if (one < from) return false;
  const third = textFrom(narrow, next + 1, to);
  const fourth = textFrom(narrow, third + 1, to);
  if (fourth >= to) return true;
  if ((entryAt(table, narrow, one, next, third, fourth) & ENTRY.denseStarts) !== 0) return true;
  const two = textBefore(narrow, one - 1, from);
  return two >= from && (entryAt(table, narrow, two, one, next, third) & ENTRY.dense) !== 0;
}

function entryAt(
  { entries, shift }: GramTable,
  narrow: Uint8Array,
  one: number,
  two: number,
  three: number,
  four: number,
): number {
  const key = hash(narrow[one] as number, narrow[two] as number, narrow[three] as number, narrow[four] as number);
  return entries[key >>> shift] as number;
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
