import { BREAK_CLASS, CLASS_BITS, CLASS_COUNT, CLASS_OF } from './fold.ts';
import { formSpaceEnd, type KnownPattern } from './known-pattern.ts';

/** Length of the beginning of a form that the filter looks at. */
export const FILTER_WINDOW = 5;
const GRAM = 3;
const LONGEST_STEP = FILTER_WINDOW - GRAM + 1;
const SHIFT_MASK = 3;
const STARTS = 4;
const BREAKS = 8;

/**
 * Skips text in which no form can begin, three characters at a time (Wu-Manber over groups of three classes). A group
 * with a line break always stops it, because forms may be broken anywhere. Indexed by group; each entry is the safe
 * step, `STARTS` if a form begins with the group, or `BREAKS`.
 */
export type PrefixFilter = Uint8Array;

/** The filter for `patterns`, or `undefined` if one of them is too short for it. */
export function buildPrefixFilter(patterns: readonly KnownPattern[]): PrefixFilter | undefined {
  const table = new Uint8Array(1 << (CLASS_BITS * GRAM)).fill(LONGEST_STEP);
  for (const pattern of patterns) {
    for (const text of windowsOf(pattern.low)) {
      if (text.length < FILTER_WINDOW) return undefined;
      addWindow(table, text);
    }
  }
  for (let one = 0; one < CLASS_COUNT; one += 1) {
    for (let two = 0; two < CLASS_COUNT; two += 1) {
      table[groupOf(BREAK_CLASS, one, two)] = BREAKS;
      table[groupOf(one, BREAK_CLASS, two)] = BREAKS;
      table[groupOf(one, two, BREAK_CLASS)] = BREAKS;
    }
  }
  return table;
}

/** First index from `from` on where a form may begin, or the first one too near to `to` to be judged. */
export function skipClean(filter: PrefixFilter, units: Uint16Array, from: number, to: number): number {
  const last = to - FILTER_WINDOW;
  let at = from;
  while (at <= last) {
    const group =
      ((CLASS_OF[units[at + 2] as number] as number) << 12) |
      ((CLASS_OF[units[at + 3] as number] as number) << 6) |
      (CLASS_OF[units[at + 4] as number] as number);
    const entry = filter[group] as number;
    // The usual step as a constant lets the processor go on before it has seen the entry.
    if (entry === LONGEST_STEP) {
      at += 3;
      continue;
    }
    const step = shortStep(filter, units, at, entry);
    if (step === 0) return at;
    at += step;
  }
  return at;
}

/** The step where the group is one of a form's, 0 to stop. */
function shortStep(filter: PrefixFilter, units: Uint16Array, at: number, entry: number): number {
  const step = entry & SHIFT_MASK;
  if (step !== 0) return step;
  if ((entry & BREAKS) !== 0) return 0;
  const one = CLASS_OF[units[at] as number] as number;
  const two = CLASS_OF[units[at + 1] as number] as number;
  const three = CLASS_OF[units[at + 2] as number] as number;
  return ((filter[groupOf(one, two, three)] as number) & STARTS) !== 0 ? 0 : 1;
}

function groupOf(one: number, two: number, three: number): number {
  return (one << (2 * CLASS_BITS)) | (two << CLASS_BITS) | three;
}

function addWindow(table: Uint8Array, text: string): void {
  for (let offset = 0; offset <= FILTER_WINDOW - GRAM; offset += 1) {
    const [one, two, three] = [0, 1, 2].map((index) => CLASS_OF[text.charCodeAt(offset + index)] as number);
    const group = groupOf(one ?? 0, two ?? 0, three ?? 0);
    const entry = table[group] as number;
    const step = Math.min(entry & SHIFT_MASK, FILTER_WINDOW - GRAM - offset);
    table[group] = (entry & STARTS) | step | (offset === 0 ? STARTS : 0);
  }
}

/**
 * The beginnings that a form can have in text without line breaks: where the form has some itself, each run of white
 * space around them is missing or one blank.
 */
function windowsOf(form: string, from = 0, before = ''): string[] {
  if (before.length >= FILTER_WINDOW || from >= form.length) return [before.slice(0, FILTER_WINDOW)];
  const end = formSpaceEnd(form, from);
  if (end === from) return windowsOf(form, from + 1, before + form.charAt(from));
  const run = form.slice(from, end);
  if (!run.includes('\n')) return windowsOf(form, end, before + run);
  return [...windowsOf(form, end, before), ...windowsOf(form, end, `${before} `)];
}
