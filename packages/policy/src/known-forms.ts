import {
  base64,
  hex,
  type JsonStyle,
  jsonEscape,
  percentEncode,
  upperPercentDigits,
  utf8ByteText,
} from './text-encodings.ts';

/**
 * One spelling of a known value. `low` and `high` have the same length; each position may hold either of their
 * characters (the digits of an escape in both cases, `+` or `-` of the two base64 alphabets).
 */
export interface Form {
  readonly low: string;
  readonly high: string;
}

/** How text reaches the redactor: decoded UTF-16, or the bytes of UTF-8 as byte text. */
export type TextUnits = 'utf16' | 'utf8';

/** Encoded forms shorter than this are too likely to be something else. */
const SHORTEST_ENCODED_FORM = 8;

const UNRESERVED = '-._~';
/** Kept characters and spelling of the blank: RFC 3986 (both ways of `/` and blank), encodeURIComponent, HTML forms, encodeURI. */
const PERCENT_STYLES: readonly (readonly [kept: string, blank: '%20' | '+'])[] = [
  [UNRESERVED, '%20'],
  [`${UNRESERVED}/`, '%20'],
  [UNRESERVED, '+'],
  [`${UNRESERVED}/`, '+'],
  [`${UNRESERVED}!'()*`, '%20'],
  ['*-._', '+'],
  [";,/?:@&=+$-_.!~*'()#", '%20'],
];

const JSON_STYLES: readonly JsonStyle[] = [
  { unicode: false, slash: false, html: false },
  { unicode: false, slash: true, html: false },
  { unicode: true, slash: false, html: false },
  { unicode: true, slash: true, html: false },
  { unicode: false, slash: false, html: true },
];
/** A second pass meets only the escapes of the first one and what that left alone. */
const SECOND_JSON_STYLES = JSON_STYLES.slice(0, 3);

/** All spellings that are looked for, the value itself first, without repetitions. */
export function knownForms(value: string, units: TextUnits): Form[] {
  const trimmed = trimBlanks(value);
  const forms = new Map<string, Form>();
  const add = (low: string, high: string): void => {
    const form = units === 'utf8' ? { low: utf8ByteText(low), high: utf8ByteText(high) } : { low, high };
    forms.set(`${form.low}\0${form.high}`, form);
  };
  add(trimmed, trimmed);
  const encoded: Form[] = [];
  // A file often ends in a newline that the variable made from it lacks: both are encoded.
  for (const spelling of new Set([value, trimmed])) encoded.push(...encodedForms(spelling));
  for (const { low, high } of encoded) if (low.length >= SHORTEST_ENCODED_FORM) add(low, high);
  return [...forms.values()];
}

/** Removes blanks, tabs and line breaks at both ends, and no other white space. */
export function trimBlanks(value: string): string {
  let from = 0;
  let to = value.length;
  while (from < to && isBlank(value.charCodeAt(from))) from += 1;
  while (to > from && isBlank(value.charCodeAt(to - 1))) to -= 1;
  return value.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;
}

function encodedForms(value: string): Form[] {
  const bytes = utf8ByteText(value);
  const lowHex = hex(bytes);
  return [
    ...base64Forms(bytes),
    { low: lowHex, high: lowHex.toUpperCase() },
    ...percentForms(bytes),
    ...jsonForms(value),
  ];
}

/**
 * At each alignment: the characters that depend on the value alone, and the spellings in which the value ends the data,
 * where the last character and the padding are certain too.
 */
function base64Forms(bytes: string): Form[] {
  const forms: Form[] = [];
  for (let before = 0; before < 3; before += 1) {
    const bits = (before + bytes.length) * 8;
    const first = Math.ceil((before * 8) / 6);
    const padded = base64('\0'.repeat(before) + bytes);
    for (const end of [Math.floor(bits / 6), Math.ceil(bits / 6), padded.length]) {
      const low = padded.slice(first, end);
      forms.push({ low, high: low.replaceAll('+', '-').replaceAll('/', '_') });
    }
  }
  return forms;
}

function percentForms(bytes: string): Form[] {
  if (!/[^A-Za-z0-9]/.test(bytes)) return [];
  return PERCENT_STYLES.map(([kept, blank]) => percentEncode(bytes, kept, blank))
    .filter((low) => low !== bytes)
    .map((low) => ({ low, high: upperPercentDigits(low) }));
}

function jsonForms(value: string): Form[] {
  const once = JSON_STYLES.map((style) => ({
    low: jsonEscape(value, style, false),
    high: jsonEscape(value, style, true),
  }));
  const forms = new Map(once.map((form) => [form.low, form]));
  for (const form of [...forms.values()]) {
    for (const style of SECOND_JSON_STYLES) {
      const low = jsonEscape(form.low, style, false);
      forms.set(low, { low, high: jsonEscape(form.high, style, true) });
    }
  }
  forms.delete(value);
  return [...forms.values()];
}
