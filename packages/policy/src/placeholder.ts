import { utf8ByteText } from './text-encodings.ts';

/** Parts of a value of this many characters may not occur in a placeholder. */
const PART = 6;
const LONGEST_NAME = 64;
/** Leading words, in the order of preference; the later ones are for values that contain the earlier ones. */
const WORDS = ['redacted', 'hidden', 'masked'];
/** Too short to hold a part of any value. */
const LAST_RESORT = '[***]';

/**
 * What stands for each value: `[redacted:NAME]`, or the word that the name asks for. A name loses everything but letters,
 * digits and `. _ -`, so that it can neither end the placeholder nor carry control characters. Where that would show six or
 * more characters in a row of any value, another word is taken, then the number of the value instead of its name, at last
 * `[***]`.
 */
export function placeholders(
  names: readonly string[],
  values: readonly string[],
  wordOf?: (name: string) => string | undefined,
): string[] {
  const choices = names.map((name, index) => choicesFor(name, index + 1, wordOf?.(name)));
  const shown = new Map<string, boolean>();
  for (const choice of choices.flat()) for (const part of partsOf(choice)) shown.set(part, false);
  const filter = new Uint8Array(1 << 16);
  for (const part of shown.keys()) filter[mix(part, 0)] = 1;
  for (const value of values) markParts(value, shown, filter);
  return choices.map((list) => list.find((choice) => partsOf(choice).every((part) => !shown.get(part))) ?? LAST_RESORT);
}

function choicesFor(name: string, number: number, first: string | undefined): string[] {
  const clean = name.slice(0, LONGEST_NAME).replace(/[^A-Za-z0-9._-]/g, '_');
  const labels = clean === '' ? [`${number}`] : [clean, `${number}`];
  const words = new Set(first === undefined ? WORDS : [first, ...WORDS]);
  return labels.flatMap((label) => [...words].map((word) => `[${word}:${label}]`));
}

function partsOf(text: string): string[] {
  return Array.from({ length: Math.max(0, text.length - PART + 1) }, (_, at) => text.slice(at, at + PART));
}

/** Slices a value only where a cheap look-up says that the part may be in a placeholder. */
function markParts(value: string, shown: Map<string, boolean>, filter: Uint8Array): void {
  const text = utf8ByteText(value);
  for (let at = 0; at + PART <= text.length; at += 1) {
    if (filter[mix(text, at)] !== 1) continue;
    const part = text.slice(at, at + PART);
    if (shown.has(part)) shown.set(part, true);
  }
}

function mix(text: string, at: number): number {
  let sum = 0;
  for (let index = at; index < at + PART; index += 1) sum = (Math.imul(sum, 31) + text.charCodeAt(index)) & 0xffff;
  return sum;
}
