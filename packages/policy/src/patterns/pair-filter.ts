import { instantiate, WASM_PAGE, type WasmExports } from '../wasm-api.ts';
import { PAIRS_AT, pairProgram, READ_AHEAD, TEXT_AT, TRIPLES_AT } from './pair-program.ts';

/** Shorter stretches are looked at where they are. */
const LEAST_COPIED = 512;
/** Bytes that are copied at once. */
const WINDOW = 1 << 16;

/** Text that does not change while it is looked at; it is copied once, as far as it is needed. */
export class FilteredText {
  readonly units: Uint8Array;
  /** Indices that are in the filter's memory, where this text is. */
  copiedFrom = 0;
  copiedTo = 0;

  constructor(units: Uint8Array) {
    this.units = units;
  }
}

/**
 * Finds pairs of a table in text, of which every other one is looked at. In WebAssembly, for what is long, only where the
 * pair and a neighbour make three of another table. It may stop for nothing, but skips no three.
 */
export class PairFilter {
  readonly #pairs = new Uint8Array(1 << 16);
  readonly #triples = new Uint8Array(1 << 15);
  /** `null` where there is no WebAssembly; made at the first use. */
  #exports: WasmExports | null | undefined;
  #memory = new Uint8Array(0);
  /** Whose text is in the memory. */
  #owner: FilteredText | null = null;

  /** The first byte lowest. */
  addPair(pair: number): void {
    this.#pairs[pair] = 1;
  }

  /** Of which two pairs were added. */
  addTriple([one = 0, two = 0, three = 0]: readonly number[]): void {
    this.#triples[((one & 31) << 10) | ((two & 31) << 5) | (three & 31)] = 1;
  }

  /** The first index from `from` on, in steps of two, below `end` at which a pair stands; `end` or more if there is none. */
  next(text: FilteredText, from: number, end: number): number {
    const { units } = text;
    const exports = end - from < LEAST_COPIED ? null : this.#instance();
    if (exports === null) return this.#nextHere(units, from, end);
    let at = from;
    while (at < end) {
      if (this.#owner !== text || at < text.copiedFrom || at >= text.copiedTo) this.#copy(text, at);
      const to = Math.min(end, text.copiedTo);
      const toIndex = text.copiedFrom - TEXT_AT - 1;
      const found = exports.main(at - toIndex, to - toIndex) + toIndex;
      if (found < to) return found;
      at = found;
    }
    return at;
  }

  #copy(text: FilteredText, from: number): void {
    const { units } = text;
    text.copiedFrom = from;
    text.copiedTo = Math.min(units.length, from + WINDOW);
    // The unit before a pair may make a three with it; one at the last index has two units behind that.
    const before = from === 0 ? 0 : 1;
    this.#memory.set(units.subarray(from - before, Math.min(units.length, text.copiedTo + 2)), TEXT_AT + 1 - before);
    this.#owner = text;
  }

  nextInText(text: string, from: number, end: number): number {
    let at = from;
    while (at < end && this.#pairs[(text.charCodeAt(at) & 0xff) | ((text.charCodeAt(at + 1) & 0xff) << 8)] === 0)
      at += 2;
    return at;
  }

  #nextHere(units: Uint8Array, from: number, end: number): number {
    let at = from;
    while (at < end && this.#pairs[(units[at] as number) | ((units[at + 1] as number) << 8)] === 0) at += 2;
    return at;
  }

  #instance(): WasmExports | null {
    if (this.#exports !== undefined) return this.#exports;
    const exports = instantiate(pairProgram(), TEXT_AT + WINDOW + READ_AHEAD + WASM_PAGE) ?? null;
    this.#exports = exports;
    if (exports === null) return null;
    this.#memory = new Uint8Array(exports.memory.buffer);
    this.#memory.set(this.#pairs, PAIRS_AT);
    this.#memory.set(this.#triples, TRIPLES_AT);
    return exports;
  }
}
