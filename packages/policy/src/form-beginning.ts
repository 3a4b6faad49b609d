import { formSpaceEnd, isSpace, type KnownPattern } from './known-pattern.ts';
import { narrowed } from './unit-buffer.ts';

/** A beginning of a form, as narrowed units: each position may hold either byte. */
export interface FormBeginning {
  readonly low: readonly number[];
  readonly high: readonly number[];
}

/** Number of a form's units that are not white space, counted up to `enough`. */
export function denseLength(form: string, enough: number): number {
  let count = 0;
  for (let at = 0; at < form.length && count < enough; at += 1) if (!isSpace(form.charCodeAt(at))) count += 1;
  return count;
}

/** The first units of a form, at most `length`, without its white space. */
export function denseBeginning(pattern: KnownPattern, length: number): FormBeginning {
  const indices: number[] = [];
  for (let at = 0; at < pattern.low.length && indices.length < length; at += 1) {
    if (!isSpace(pattern.low.charCodeAt(at))) indices.push(at);
  }
  return beginningAt(pattern, indices);
}

/**
 * The first `length` units that a form can have in text without line breaks: where the form has some itself, each run
 * of white space around them is missing or one blank.
 */
export function unbrokenBeginnings(pattern: KnownPattern, length: number): FormBeginning[] {
  const beginnings: FormBeginning[] = [];
  const extend = (from: number, indices: readonly number[]): void => {
    if (indices.length >= length || from >= pattern.low.length) {
      beginnings.push(beginningAt(pattern, indices.slice(0, length)));
      return;
    }
    const end = formSpaceEnd(pattern.low, from);
    if (end === from) {
      extend(from + 1, [...indices, from]);
    } else if (pattern.low.slice(from, end).includes('\n')) {
      extend(end, indices);
      extend(end, [...indices, BLANK]);
    } else {
      extend(end, [...indices, ...Array.from({ length: end - from }, (_, offset) => from + offset)]);
    }
  };
  extend(0, []);
  return beginnings;
}

/** Stands for a blank among the indices of a form. */
const BLANK = -1;

function beginningAt({ low, high }: KnownPattern, indices: readonly number[]): FormBeginning {
  const unit = (text: string, index: number) => (index === BLANK ? 0x20 : narrowed(text.charCodeAt(index)));
  return { low: indices.map((index) => unit(low, index)), high: indices.map((index) => unit(high, index)) };
}
