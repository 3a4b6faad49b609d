import type { Form } from './known-forms.ts';
import type { Units } from './unit-buffer.ts';

/** A form and the value that it is a form of. */
export interface KnownPattern extends Form {
  /** Index of the value in the list of compiled names. */
  readonly value: number;
  /** Whether the value's own line breaks must be there: what is left without them is too short to be looked for. */
  readonly keepsBreaks: boolean;
}

/** Result of `comparePattern`: whether the text is that form, and the number of steps taken to find out. */
export interface Comparison {
  equal: boolean;
  steps: number;
}

/**
 * Compares `units[from..to)` with a form exactly, except that a line break with the white space around it stands for
 * nothing or for any white space of the form, and that white space of the form which holds a line break may be missing
 * or be one blank. So a value is found wrapped, indented, with CRLF, or with its own lines joined. Writes into `result`.
 */
export function comparePattern(
  pattern: KnownPattern,
  units: Units,
  from: number,
  to: number,
  result: Comparison,
): void {
  const { low, high } = pattern;
  let at = from;
  let index = 0;
  let equal = true;
  while (equal && index < low.length && at < to) {
    const unit = units[at] as number;
    const wanted = low.charCodeAt(index);
    if (unit === wanted && unit > 0x20) {
      at += 1;
      index += 1;
    } else if (isSpace(unit) || isSpace(wanted)) {
      const textEnd = spaceEnd(units, at, to);
      const formEnd = formSpaceEnd(low, index);
      equal = spacesAgree(pattern, index, formEnd, units, at, textEnd);
      at = textEnd;
      index = formEnd;
    } else {
      equal = unit === wanted || unit === high.charCodeAt(index);
      at += 1;
      index += 1;
    }
  }
  result.equal = equal && index === low.length && at === to;
  result.steps = at - from + 1;
}

/** Whether matching steps over the unit: blank, tab, LF or CR. */
export function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x09 || unit === 0x0d;
}

function spaceEnd(units: Units, from: number, to: number): number {
  let at = from;
  while (at < to && isSpace(units[at] as number)) at += 1;
  return at;
}

/** End of the run of white space of `form` that begins at `from`. */
export function formSpaceEnd(form: string, from: number): number {
  let index = from;
  while (index < form.length && isSpace(form.charCodeAt(index))) index += 1;
  return index;
}

function spacesAgree(
  pattern: KnownPattern,
  index: number,
  formEnd: number,
  units: Units,
  at: number,
  textEnd: number,
): boolean {
  let same = formEnd - index === textEnd - at;
  for (let offset = 0; offset < textEnd - at; offset += 1) {
    const unit = units[at + offset] as number;
    if (unit === 0x0a) return true;
    if (same && unit !== pattern.low.charCodeAt(index + offset)) same = false;
  }
  if (same || pattern.keepsBreaks) return same;
  const joined = textEnd === at || (textEnd === at + 1 && units[at] === 0x20);
  return joined && pattern.low.slice(index, formEnd).includes('\n');
}
