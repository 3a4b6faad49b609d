/** What a row of the bench is. */
import type { Comparison } from './comparison.ts';

/** How much is measured. */
export interface Effort {
  /** Interleaved rounds, at least five for numbers that count. */
  readonly rounds: number;
  /** Multiplies samples and sizes; below 1 only to try a row out. */
  readonly scale: number;
  /** Where fetched data is kept between runs. */
  readonly cacheDirectory: string;
}

/** One promise of SPECIFICATION.md. */
export interface Row {
  /** For `make bench ROW=…`. */
  readonly name: string;
  /** Its file, from the top of the repository. */
  readonly source: string;
  readonly what: string;
  readonly baseline: string;
  /** Measures. Everything that it started has ended when it resolves. */
  readonly run: (effort: Effort) => Promise<readonly Comparison[]>;
}

/** A row that can't be measured here: what is missing, and the command that installs it. */
export class MissingPrerequisite extends Error {
  override readonly name = 'MissingPrerequisite';
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}
