import { type CleanFilter, LINE_REACH } from './clean-filter.ts';
import { BARRIER_BITS, filterProgram, READ_AHEAD } from './filter-program.ts';
import type { GramTable } from './gram-table.ts';
import type { UnitBuffer } from './unit-buffer.ts';
import { instantiate, WASM_PAGE, type WasmExports } from './wasm-api.ts';

/** The filter in WebAssembly, with line breaks found sixteen units at a time: two to four times as fast. */
export class WasmFilter implements CleanFilter {
  readonly reach: number;
  barrier = 0;
  readonly #exports: WasmExports;
  /** Address of the text, behind the table. */
  readonly #text: number;
  #memory: Uint8Array<ArrayBuffer>;
  /** Index in the buffer of what is at `#text`, or -1. */
  #copiedFrom = -1;

  private constructor(table: GramTable, exports: WasmExports) {
    this.reach = table.reach;
    this.#exports = exports;
    this.#memory = new Uint8Array(exports.memory.buffer);
    this.#memory.set(table.entries);
    this.#text = table.entries.length;
  }

  /** A filter, or `undefined` where there is no WebAssembly. */
  static create(table: GramTable): WasmFilter | undefined {
    const exports = instantiate(filterProgram(table, LINE_REACH), table.entries.length + WASM_PAGE);
    return exports === undefined ? undefined : new WasmFilter(table, exports);
  }

  begin(): void {
    this.#copiedFrom = -1;
  }

  skip(buffer: UnitBuffer, from: number): number {
    if (this.#copiedFrom < 0) this.#copy(buffer, from);
    const toIndex = this.#copiedFrom - this.#text;
    const result = this.#exports.main(from - toIndex, buffer.length - toIndex);
    const at = (result >>> BARRIER_BITS) + toIndex;
    this.barrier = at + (result & ((1 << BARRIER_BITS) - 1));
    return at;
  }

  #copy(buffer: UnitBuffer, from: number): void {
    const end = this.#text + buffer.length - from + READ_AHEAD;
    if (end > this.#memory.length) {
      this.#exports.memory.grow(Math.ceil((end - this.#memory.length) / WASM_PAGE));
      this.#memory = new Uint8Array(this.#exports.memory.buffer);
    }
    this.#memory.set(buffer.narrow.subarray(from, buffer.length), this.#text);
    this.#copiedFrom = from;
  }
}
