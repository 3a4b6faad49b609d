import { buildAutomaton } from './known-automaton.ts';
import { knownForms, type TextUnits, trimBlanks } from './known-forms.ts';
import { isSpace, type KnownPattern } from './known-pattern.ts';
import type { ScannerTables } from './known-scanner.ts';
import { placeholders } from './placeholder.ts';
import { buildPrefixFilter } from './prefix-filter.ts';
import { utf8Length } from './text-encodings.ts';

/** Names and secret values to hide, as a map or as a plain object. */
export type KnownSecrets = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

/** What `compileKnownValues` accepts. Beyond a limit it throws: a value that is not looked for must not go unnoticed. */
export const KNOWN_VALUE_LIMITS = {
  /** Number of values. */
  values: 1_000,
  /** Bytes of one value in UTF-8. */
  valueBytes: 65_536,
  /** Characters of all forms of all values together; a plain value of n bytes has about 8 n of them. */
  formUnits: 8_388_608,
} as const;

/** A value shorter than this many bytes, without white space at its ends, is left alone: it would destroy the text. */
export const SHORTEST_KNOWN_VALUE = 6;

/** The values exceed `KNOWN_VALUE_LIMITS`. The message names the limit and the value's name, never the value. */
export class KnownValuesError extends Error {
  /** Stable code for programs. */
  readonly code = 'known_values_too_large';

  /** @param message What is too large, and the limit. */
  constructor(message: string) {
    super(message);
    this.name = 'KnownValuesError';
  }
}

/**
 * Values prepared for redactors; make it once and share it among the streams that hide the same values. It holds the
 * values in clear: keep it where the values may be.
 */
export class KnownValues {
  /** Names of the values that are left alone, being blank or shorter than `SHORTEST_KNOWN_VALUE` bytes. */
  readonly ignored: readonly string[];
  readonly #values: readonly string[];
  readonly #placeholders: readonly string[];
  readonly #tables = new Map<TextUnits, ScannerTables | undefined>();

  /** @param known The values. @throws KnownValuesError beyond the limits. */
  constructor(known: KnownSecrets) {
    const entries = known instanceof Map ? [...known] : Object.entries(known);
    if (entries.length > KNOWN_VALUE_LIMITS.values) {
      throw new KnownValuesError(`${entries.length} known values; the limit is ${KNOWN_VALUE_LIMITS.values}`);
    }
    const values = new Map<string, string>();
    const ignored: string[] = [];
    for (const [name, value] of entries) {
      if (value.length > KNOWN_VALUE_LIMITS.valueBytes || utf8Length(value) > KNOWN_VALUE_LIMITS.valueBytes) {
        throw new KnownValuesError(
          `The known value ${JSON.stringify(name)} is longer than ${KNOWN_VALUE_LIMITS.valueBytes} bytes`,
        );
      }
      if (utf8Length(trimBlanks(value)) < SHORTEST_KNOWN_VALUE || value.trim() === '') ignored.push(name);
      else if (!values.has(value)) values.set(value, name);
    }
    this.ignored = ignored;
    this.#values = [...values.keys()];
    this.#placeholders = placeholders([...values.values()], this.#values);
  }

  /** What stands for the value with this index. */
  placeholder(value: number): string {
    return this.#placeholders[value] ?? '[***]';
  }

  /**
   * Tables for one kind of stream, made at the first call; `undefined` if there is nothing to look for.
   * @throws KnownValuesError if the forms exceed the limit.
   */
  tables(units: TextUnits): ScannerTables | undefined {
    if (!this.#tables.has(units)) this.#tables.set(units, this.#compile(units));
    return this.#tables.get(units);
  }

  #compile(units: TextUnits): ScannerTables | undefined {
    if (this.#values.length === 0) return undefined;
    const patterns: KnownPattern[] = [];
    let total = 0;
    let longest = 0;
    for (const [value, text] of this.#values.entries()) {
      for (const { low, high } of knownForms(text, units)) {
        total += low.length;
        longest = Math.max(longest, low.length);
        if (total > KNOWN_VALUE_LIMITS.formUnits) {
          throw new KnownValuesError(
            `The encoded forms of the known values exceed ${KNOWN_VALUE_LIMITS.formUnits} characters together`,
          );
        }
        patterns.push({ low, high, value, keepsBreaks: unitsWithoutSpace(low) < SHORTEST_KNOWN_VALUE });
      }
    }
    return { automaton: buildAutomaton(patterns), filter: buildPrefixFilter(patterns), maxSpan: 4 * longest + 4096 };
  }
}

function unitsWithoutSpace(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length && count < SHORTEST_KNOWN_VALUE; at += 1) {
    if (!isSpace(text.charCodeAt(at))) count += 1;
  }
  return count;
}
