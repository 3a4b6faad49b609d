/** Code units of a stream: bytes, or UTF-16. */
export type Units = Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/**
 * A byte for each code unit, as the filter reads them. Bytes and the characters up to U+00FF stay what they are, the
 * rest shares the bytes from 0x80 on: two equal units have equal bytes, and only white space becomes white space.
 */
export function narrowed(unit: number): number {
  return unit < 0x100 ? unit : 0x80 | ((unit ^ (unit >> 7)) & 0x7f);
}

const FIRST_SIZE = 1024;
const LARGEST_SPARE = 1 << 18;

/** The part of a stream that is still looked at. Positions are counted from the beginning of the stream. */
export class UnitBuffer {
  /** Stream position of `units[0]`. */
  base = 0;
  /** Number of units that are kept. */
  length = 0;
  units: Units;
  /** `narrowed` of every unit; the same array where the units are bytes. */
  narrow: Uint8Array<ArrayBuffer>;
  /** The memory of `narrow`, four at a time. */
  words: Int32Array<ArrayBuffer>;

  /** @param wide Whether the units are UTF-16. */
  constructor(wide: boolean) {
    this.narrow = new Uint8Array(FIRST_SIZE);
    this.words = new Int32Array(this.narrow.buffer);
    this.units = wide ? new Uint16Array(FIRST_SIZE) : this.narrow;
  }

  /** Drops the first `drop` units and makes room for `count` more, to be written from the index it returns. */
  reserve(drop: number, count: number): number {
    const kept = this.length - drop;
    if (kept + count > this.units.length) this.#enlarge(drop, kept + count);
    else if (drop > 0) this.#shift(drop);
    this.base += drop;
    this.length = kept + count;
    return kept;
  }

  #shift(drop: number): void {
    this.narrow.copyWithin(0, drop, this.length);
    if (this.units !== this.narrow) this.units.copyWithin(0, drop, this.length);
  }

  #enlarge(drop: number, least: number): void {
    const wanted = Math.max(least, Math.min(this.units.length * 2, LARGEST_SPARE));
    const narrow = new Uint8Array((wanted + 3) & ~3);
    narrow.set(this.narrow.subarray(drop, this.length));
    if (this.units === this.narrow) {
      this.units = narrow;
    } else {
      const units = new Uint16Array(narrow.length);
      units.set(this.units.subarray(drop, this.length));
      this.units = units;
    }
    this.narrow = narrow;
    this.words = new Int32Array(narrow.buffer);
  }
}
