/** What comes from the runner on one stream, on its way through the redactor. */
import { type ByteRedactor, createByteRedactor, type KnownValues, type RedactorPosition } from '@boxkite/policy';

/** Raw bytes whose share of the log is complete, and where the redactor stood then. */
export interface RawPosition {
  readonly raw: number;
  readonly redactor: Omit<RedactorPosition, 'settled'>;
}

const NOTHING = new Uint8Array(0);
const FRESH = { covered: 0, values: [], steps: 0 } as const;

/** One raw stream. */
export class RawStream {
  readonly #known: KnownValues;
  /** Made with the first byte: most streams have none. */
  #redactor: ByteRedactor | null = null;
  /** Where it is to begin. */
  #start: Omit<RedactorPosition, 'settled'>;
  /** Where the redactor began. */
  #base: number;
  #received: number;

  /** `from` is where an earlier process stood; what came before is in the log. */
  constructor(known: KnownValues, from: RawPosition = { raw: 0, redactor: FRESH }) {
    this.#known = known;
    this.#base = from.raw;
    this.#received = from.raw;
    this.#start = from.redactor;
  }

  /** Raw bytes taken so far. */
  get received(): number {
    return this.#received;
  }

  /** Raw bytes whose share of the log has been told; an earlier process may have told more than it was sure of. */
  get told(): number {
    return Math.max(this.#received, this.#base + this.#start.covered);
  }

  /** The part of a piece at `offset` that has not been taken yet. */
  fresh(offset: number, data: Uint8Array): Uint8Array {
    const seen = this.#received - offset;
    return seen <= 0 ? data : data.subarray(Math.min(seen, data.length));
  }

  /** Takes the next bytes and returns what can be told by now. */
  push(data: Uint8Array): Uint8Array[] {
    this.#received += data.length;
    this.#redactor ??= createByteRedactor(this.#known, { from: { settled: 0, ...this.#start } });
    return this.#redactor.pushParts(data);
  }

  /** Returns what is held back, at the end or before a gap that ends at `next`. */
  flush(next: number = this.#received): Uint8Array {
    const rest = this.#redactor?.flush() ?? NOTHING;
    const again = Math.max(0, this.told - next);
    this.#redactor = null;
    this.#start =
      again === 0
        ? FRESH
        : { ...FRESH, covered: again, patterns: { key: null, inWord: false, inValue: false, given: again } };
    this.#base = next;
    this.#received = next;
    return rest;
  }

  position(): RawPosition {
    if (this.#redactor === null) return { raw: this.#base, redactor: this.#start };
    const { settled, ...redactor } = this.#redactor.position();
    return { raw: this.#base + settled, redactor };
  }
}
