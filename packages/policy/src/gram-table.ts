import { denseBeginning, denseLength, type FormBeginning, unbrokenBeginnings } from './form-beginning.ts';
import type { KnownPattern } from './known-pattern.ts';

/** Units that are looked at together. */
const GRAM = 4;
const LONGEST_REACH = 16;

/** Bits of an entry. */
export const ENTRY = {
  /** How far a form's beginning may be moved on over the text: 0 if it may end with the gram. */
  step: 31,
  /** A form begins with the gram. */
  starts: 32,
  /** The gram is near the beginning of a form, without the form's white space. */
  dense: 64,
  /** A form without its white space begins with the gram. */
  denseStarts: 128,
} as const;

const FEWEST_BITS = 16;
const MOST_BITS = 20;
/** Entries a gram, so that few of the others meet the entry of one. */
const ENTRIES_A_GRAM = 16;
/** Multiplier of the hash, 2^32 divided by the golden ratio. */
export const HASH_FACTOR = 0x9e3779b1;

/** What the filter knows of the grams (groups of four units) near the beginnings of forms. */
export interface GramTable {
  /** Units of a beginning that are looked at. */
  readonly reach: number;
  /** The step over a gram that is in no beginning. */
  readonly step: number;
  /** Bits to drop from a hash to get an index. */
  readonly shift: number;
  /** An entry for each index. */
  readonly entries: Uint8Array<ArrayBuffer>;
}

/** The table for `patterns`, or `undefined` if one of them is too short for it. */
export function buildGramTable(patterns: readonly KnownPattern[]): GramTable | undefined {
  let shortest = LONGEST_REACH + 1;
  for (const { low } of patterns) shortest = Math.min(shortest, denseLength(low, shortest));
  const reach = shortest - 1;
  const step = reach - GRAM + 1;
  if (step < 1) return undefined;
  const beginnings = patterns.flatMap((pattern) => unbrokenBeginnings(pattern, reach));
  let bits = FEWEST_BITS;
  while (bits < MOST_BITS && 1 << bits < beginnings.length * step * ENTRIES_A_GRAM) bits += 1;
  const table = { reach, step, shift: 32 - bits, entries: new Uint8Array(1 << bits).fill(step) };
  for (const beginning of beginnings) addUnbroken(table, beginning);
  for (const pattern of patterns) addDense(table, denseBeginning(pattern, reach + 1));
  return table;
}

/** Hash of four units, of which the highest bits count. */
export function hash(one: number, two: number, three: number, four: number): number {
  return Math.imul(one | (two << 8) | (three << 16) | (four << 24), HASH_FACTOR);
}

function addUnbroken({ step, shift, entries }: GramTable, beginning: FormBeginning): void {
  for (let offset = 0; offset < step; offset += 1) {
    for (const key of hashesAt(beginning, offset)) {
      const entry = entries[key >>> shift] as number;
      const least = Math.min(entry & ENTRY.step, step - 1 - offset);
      entries[key >>> shift] = (entry & ~ENTRY.step) | least | (offset === 0 ? ENTRY.starts : 0);
    }
  }
}

function addDense({ shift, entries }: GramTable, beginning: FormBeginning): void {
  for (let offset = 0; offset + GRAM <= beginning.low.length; offset += 1) {
    const flags = offset === 0 ? ENTRY.dense | ENTRY.denseStarts : ENTRY.dense;
    for (const key of hashesAt(beginning, offset)) {
      entries[key >>> shift] = (entries[key >>> shift] as number) | flags;
    }
  }
}

/** Hashes of a gram in all its spellings. */
function hashesAt({ low, high }: FormBeginning, offset: number): number[] {
  let lowest = 0;
  let differing = 0;
  for (let index = 0; index < GRAM; index += 1) {
    const unit = low[offset + index] ?? 0;
    lowest |= unit << (8 * index);
    differing |= (unit ^ (high[offset + index] ?? 0)) << (8 * index);
  }
  const words = [lowest];
  for (let mask = 0xff; differing !== 0 && mask !== 0; mask <<= 8) {
    const other = differing & mask;
    const count = other === 0 ? 0 : words.length;
    for (let index = 0; index < count; index += 1) words.push((words[index] as number) ^ other);
  }
  return words.map((word) => Math.imul(word, HASH_FACTOR));
}
