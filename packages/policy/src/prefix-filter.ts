import { BLANK_CLASS, BREAK_CLASS, CLASS_BITS, CLASS_COUNT, CLASS_OF } from './fold.ts';
import { formSpaceEnd, isSpace, type KnownPattern } from './known-pattern.ts';

/** Length of the beginning of a form that the filter looks at. */
export const FILTER_WINDOW = 5;
const GRAM = 3;
const LONGEST_STEP = FILTER_WINDOW - GRAM + 1;
const SHIFT_MASK = 3;
const STARTS = 4;
const BREAKS = 8;
const STRADDLES = 16;

/**
 * Skips text in which no form can begin, three characters at a time (Wu-Manber over groups of three classes). Indexed by
 * group; each entry is the safe step and flags: `STARTS` if a form begins with the group; `BREAKS` if the group has a
 * line break, which may stand anywhere in a form; `STRADDLES` if the group is near the beginning of a form whose white
 * space has been left out, as it is around a break.
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
    const dense = denseStart(pattern.low);
    if (dense.length < FILTER_WINDOW) return undefined;
    for (let offset = 0; offset <= FILTER_WINDOW - GRAM; offset += 1) {
      const group = groupAt(dense, offset);
      table[group] = (table[group] as number) | STRADDLES;
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

/**
 * First index from `from` on where a form may begin, or the first one too near to `to` to be judged. The inner loop holds
 * the usual step alone, as a constant: so the processor goes on before it has seen the entry (twice as fast).
 */
export function skipClean(filter: PrefixFilter, units: Uint16Array, from: number, to: number): number {
  const last = to - FILTER_WINDOW;
  let at = from;
  while (at <= last) {
    let entry = LONGEST_STEP;
    for (;;) {
      const group =
        ((CLASS_OF[units[at + 2] as number] as number) << (2 * CLASS_BITS)) |
        ((CLASS_OF[units[at + 3] as number] as number) << CLASS_BITS) |
        (CLASS_OF[units[at + 4] as number] as number);
      entry = filter[group] as number;
      if (entry !== LONGEST_STEP) break;
      at += LONGEST_STEP;
      if (at > last) return at;
    }
    const next = (entry & BREAKS) !== 0 ? crossBreak(filter, units, at, to) : at + shortStep(filter, units, at, entry);
    if (next === at) return at;
    at = next;
  }
  return at;
}

/**
 * With a line break two to four units behind `at`: the first unit behind the break and the white space around it if no
 * form that begins before the break can go on there, else `at`. Such a form has two characters before and one behind,
 * or one before and two behind, as a group near its beginning.
 */
function crossBreak(filter: PrefixFilter, units: Uint16Array, at: number, to: number): number {
  let second = at + 2;
  while (!isBreak(units[second] as number)) second += 1;
  const next = textFrom(units, second, to);
  const after = textFrom(units, next + 1, to);
  if (after >= to || isBreak(units[next + 1] as number)) return at;
  second = textBefore(units, second - 1, at);
  if (second < at) return next;
  const nextClass = CLASS_OF[units[next] as number] as number;
  const secondClass = CLASS_OF[units[second] as number] as number;
  const behind = groupOf(secondClass, nextClass, CLASS_OF[units[after] as number] as number);
  if (((filter[behind] as number) & STRADDLES) !== 0) return at;
  const first = textBefore(units, second - 1, at);
  if (first < at) return next;
  const before = groupOf(CLASS_OF[units[first] as number] as number, secondClass, nextClass);
  return ((filter[before] as number) & STRADDLES) !== 0 ? at : next;
}

function isBreak(unit: number): boolean {
  return CLASS_OF[unit] === BREAK_CLASS;
}

/** First index from `from` on without white space, or `to` or more. */
function textFrom(units: Uint16Array, from: number, to: number): number {
  let index = from;
  while (index < to && (CLASS_OF[units[index] as number] as number) <= BLANK_CLASS) index += 1;
  return index;
}

/** Last index down from `from` without white space, or less than `least`. */
function textBefore(units: Uint16Array, from: number, least: number): number {
  let index = from;
  while (index >= least && (CLASS_OF[units[index] as number] as number) <= BLANK_CLASS) index -= 1;
  return index;
}

/** The step where the group is one of a form's, 0 to stop. */
function shortStep(filter: PrefixFilter, units: Uint16Array, at: number, entry: number): number {
  const step = entry & SHIFT_MASK;
  if (step !== 0) return step;
  const one = CLASS_OF[units[at] as number] as number;
  const two = CLASS_OF[units[at + 1] as number] as number;
  const three = CLASS_OF[units[at + 2] as number] as number;
  return ((filter[groupOf(one, two, three)] as number) & STARTS) !== 0 ? 0 : 1;
}

function groupOf(one: number, two: number, three: number): number {
  return (one << (2 * CLASS_BITS)) | (two << CLASS_BITS) | three;
}

/** The first characters of a form without white space. */
function denseStart(form: string): string {
  let dense = '';
  for (let at = 0; at < form.length && dense.length < FILTER_WINDOW; at += 1) {
    if (!isSpace(form.charCodeAt(at))) dense += form.charAt(at);
  }
  return dense;
}

function groupAt(text: string, offset: number): number {
  const one = CLASS_OF[text.charCodeAt(offset)] as number;
  const two = CLASS_OF[text.charCodeAt(offset + 1)] as number;
  return groupOf(one, two, CLASS_OF[text.charCodeAt(offset + 2)] as number);
}

function addWindow(table: Uint8Array, text: string): void {
  for (let offset = 0; offset <= FILTER_WINDOW - GRAM; offset += 1) {
    const group = groupAt(text, offset);
    const entry = table[group] as number;
    const step = Math.min(entry & SHIFT_MASK, FILTER_WINDOW - GRAM - offset);
    table[group] = (entry & ~SHIFT_MASK) | step | (offset === 0 ? STARTS : 0);
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
