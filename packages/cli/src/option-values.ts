/** Reads the values of options: text, numbers, variables. */
import type { OptionTable, ParsedArguments } from './options.ts';
import { mistake } from './options.ts';

/** The values that were given to the options of a table. Errors of each reader: `invalid_request`. */
export class OptionValues<T extends OptionTable> {
  readonly #table: T;
  readonly #values: ParsedArguments['values'];

  constructor(table: T, parsed: ParsedArguments) {
    this.#table = table;
    this.#values = parsed.values;
  }

  has(name: keyof T & string): boolean {
    return this.#values.has(name);
  }

  text(name: keyof T & string): string | undefined {
    const [value] = this.#values.get(name) ?? [];
    if (value === '') throw mistake(`--${name} is empty`, `Give ${this.#table[name]?.value ?? 'a value'}.`);
    return value;
  }

  /** The values of an option that may be repeated. */
  texts(name: keyof T & string): readonly string[] {
    const given = this.#values.get(name) ?? [];
    if (given.includes('')) throw mistake(`--${name} is empty`, `Give ${this.#table[name]?.value ?? 'a value'}.`);
    return given;
  }

  /** One of these words. */
  choice<C extends string>(name: keyof T & string, choices: readonly C[]): C | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const found = choices.find((choice) => choice === value);
    if (found !== undefined) return found;
    throw mistake(`--${name} is to be ${choices.join(' or ')}, not ${value}`, `Write --${name} ${choices[0] ?? ''}.`);
  }

  /** Decimal notation only: what `Number` takes beyond it (`0x10`, `1e3`, spaces) is more likely a slip than meant. */
  number(name: keyof T & string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : decimal(`--${name}`, text);
  }

  whole(name: keyof T & string): number | undefined {
    const value = this.number(name);
    return value === undefined ? undefined : wholeNumber(`--${name}`, value);
  }

  /** Seconds above 0, as ms. */
  timeout(name: keyof T & string): number | undefined {
    const seconds = this.number(name);
    if (seconds === undefined) return undefined;
    if (seconds <= 0) throw mistake(`--${name} is to be above 0`, 'Leave it out for no time limit.');
    return Math.ceil(seconds * 1000);
  }

  /** `NAME=VALUE` pairs of an option that may be repeated. */
  variables(name: keyof T & string): Readonly<Record<string, string>> {
    return Object.fromEntries((this.#values.get(name) ?? []).map((pair) => variable(name, pair)));
  }
}

/** An unsigned decimal number. `what` names it in the error. */
export function decimal(what: string, text: string): number {
  if (/^\d{1,12}(?:\.\d{1,6})?$/.test(text)) return Number(text);
  throw mistake(
    `${what} is to be an unsigned decimal number, not ${text}`,
    `Write for example ${what.startsWith('-') ? `${what} ` : ''}10.`,
  );
}

/** A number without a fraction. */
export function wholeNumber(what: string, value: number): number {
  if (Number.isInteger(value)) return value;
  throw mistake(`${what} is to be a whole number, not ${value}`, `Write for example ${what} ${Math.ceil(value)}.`);
}

function variable(option: string, pair: string): readonly [string, string] {
  const equals = pair.indexOf('=');
  const name = pair.slice(0, equals);
  if (equals > 0 && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return [name, pair.slice(equals + 1)];
  throw mistake(
    `--${option} ${pair} is not NAME=VALUE`,
    `Write for example --${option} LANG=C; nothing is taken from your own environment.`,
  );
}
