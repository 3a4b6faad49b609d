/**
 * Coarse classes of code units. Everything that two spellings of one form may differ in falls into one class: the cases
 * of a letter, `+` and `-`, `/` and `_`. Characters beyond ASCII share six classes. What matches by class is therefore
 * only a candidate, and `known-pattern.ts` compares it exactly.
 */

/** Number of bits of a class. */
export const CLASS_BITS = 6;
/** Number of classes. */
export const CLASS_COUNT = 1 << CLASS_BITS;
/** Class of LF and CR. */
const BREAK_CLASS = 0;
/** Class of blank and tab; this class and `BREAK_CLASS` are the ones that matching steps over. */
export const BLANK_CLASS = 1;

const FIRST_LETTER = 2;
const FIRST_DIGIT = 28;
const FIRST_PUNCTUATION = 38;
const CONTROL = 57;
const FIRST_WIDE = 58;
/** Punctuation with a class of its own, since it occurs in forms; the rest of ASCII shares the classes up to `CONTROL`. */
const PUNCTUATION = '+/=%\\".:@!$&*,';

/** Class of a UTF-16 code unit, or of a byte. */
export const CLASS_OF: Uint8Array = classTable();

function classTable(): Uint8Array {
  const table = new Uint8Array(0x10000);
  for (let unit = 0; unit < table.length; unit += 1) table[unit] = classOf(unit);
  return table;
}

function classOf(unit: number): number {
  if (unit === 0x0a || unit === 0x0d) return BREAK_CLASS;
  if (unit === 0x20 || unit === 0x09) return BLANK_CLASS;
  if (unit >= 0x80) return FIRST_WIDE + ((unit ^ (unit >> 5)) % (CLASS_COUNT - FIRST_WIDE));
  if (unit < 0x20 || unit === 0x7f) return CONTROL;
  const character = String.fromCharCode(unit).toLowerCase().replace('-', '+').replace('_', '/');
  if (character >= 'a' && character <= 'z') return FIRST_LETTER + character.charCodeAt(0) - 0x61;
  if (character >= '0' && character <= '9') return FIRST_DIGIT + character.charCodeAt(0) - 0x30;
  const own = PUNCTUATION.indexOf(character);
  const shared = FIRST_PUNCTUATION + PUNCTUATION.length;
  return own >= 0 ? FIRST_PUNCTUATION + own : shared + (unit % (CONTROL - shared));
}
