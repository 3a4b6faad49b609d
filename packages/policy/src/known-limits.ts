/** What `KnownValues` accepts. Beyond a limit it throws: a value that is not looked for must not go unnoticed. */
export const KNOWN_VALUE_LIMITS = {
  /** Number of values. */
  values: 1_000,
  /** Bytes of one value in UTF-8. */
  valueBytes: 65_536,
  /**
   * Characters of all forms of all values together, counted once where forms begin alike. A value of n letters and
   * digits has about 7 n, one with many characters that must be escaped up to 30 n.
   */
  formCharacters: 4_194_304,
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
