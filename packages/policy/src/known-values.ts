import { denseLength } from './form-beginning.ts';
import { buildGramTable } from './gram-table.ts';
import { AutomatonBuilder } from './known-automaton.ts';
import { knownForms, type TextUnits, trimBlanks } from './known-forms.ts';
import { KNOWN_VALUE_LIMITS, KnownValuesError, SHORTEST_KNOWN_VALUE } from './known-limits.ts';
import type { ScannerTables } from './known-scanner.ts';
import { placeholders } from './placeholder.ts';
import { ScriptFilter } from './script-filter.ts';
import { utf8Length } from './text-encodings.ts';
import { WasmFilter } from './wasm-filter.ts';

/** Names and secret values to hide, as a map or as a plain object. */
export type KnownSecrets = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

/** How values are prepared. */
export interface KnownValuesOptions {
  /** The word before a name in its placeholder; `undefined`: `redacted`. */
  readonly wordOf?: ((name: string) => string | undefined) | undefined;
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
  constructor(known: KnownSecrets, { wordOf }: KnownValuesOptions = {}) {
    const entries = isMap(known) ? [...known] : Object.entries(known);
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
    this.#placeholders = placeholders([...values.values()], this.#values, wordOf);
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
    const builder = new AutomatonBuilder(KNOWN_VALUE_LIMITS.formCharacters);
    let longest = 0;
    for (const [value, text] of this.#values.entries()) {
      for (const { low, high } of knownForms(text, units)) {
        longest = Math.max(longest, low.length);
        builder.add({ low, high, value, keepsBreaks: denseLength(low, SHORTEST_KNOWN_VALUE) < SHORTEST_KNOWN_VALUE });
      }
    }
    const automaton = builder.build();
    const grams = buildGramTable(automaton.patterns);
    const filter = grams && (WasmFilter.create(grams) ?? new ScriptFilter(grams));
    return { automaton, filter, wide: units === 'utf16', maxSpan: 4 * longest + 4096 };
  }
}

/** `instanceof` alone would leave the types of its entries unknown. */
function isMap(known: KnownSecrets): known is ReadonlyMap<string, string> {
  return known instanceof Map;
}
