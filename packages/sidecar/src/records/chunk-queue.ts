import { hold, letGo } from '@boxkite/runner-client';

/** A piece of a log that is in memory. */
export interface Chunk {
  readonly offset: number;
  readonly data: Uint8Array;
  /** Rises over both streams of an exec, in the order in which they came. */
  readonly order: number;
}

/** A smaller piece is copied where it has less than this share of its memory, so that a few bytes do not hold a whole buffer. */
const SMALL_BYTES = 32 * 1024;
const LEAST_SHARE = 0.25;

/** The newest pieces of one log, one after the other. Their memory is held as long as they are here. */
export class ChunkQueue {
  #chunks: Chunk[] = [];
  #first = 0;
  #from: number;
  #end: number;

  constructor(end: number) {
    this.#from = end;
    this.#end = end;
  }

  /** Offsets of the first byte here, and behind the last one. */
  get from(): number {
    return this.#from;
  }

  get end(): number {
    return this.#end;
  }

  push(data: Uint8Array, order: number): void {
    const small = data.length < SMALL_BYTES && data.length < LEAST_SHARE * data.buffer.byteLength;
    const own = small ? Buffer.from(data) : data;
    hold(own);
    this.#chunks.push({ offset: this.#end, data: own, order });
    this.#end += data.length;
  }

  /** Lets go of whole pieces before `offset`. */
  dropBefore(offset: number): void {
    while (this.#first < this.#chunks.length) {
      const chunk = this.#chunks[this.#first] as Chunk;
      if (chunk.offset + chunk.data.length > offset) break;
      letGo(chunk.data);
      this.#first += 1;
    }
    if (this.#first === this.#chunks.length) {
      this.#chunks = [];
      this.#first = 0;
    } else if (this.#first > 64 && this.#first * 2 > this.#chunks.length) {
      this.#chunks = this.#chunks.slice(this.#first);
      this.#first = 0;
    }
    this.#from = this.#chunks[this.#first]?.offset ?? this.#end;
  }

  /** Lets go of all; the log goes on at `offset`. */
  restart(offset: number): void {
    for (const { data } of this.#chunks.slice(this.#first)) letGo(data);
    this.#chunks = [];
    this.#first = 0;
    this.#from = offset;
    this.#end = offset;
  }

  /** The piece that holds `offset`, which must lie between `from` and `end`. */
  at(offset: number): Chunk {
    let [low, high] = [this.#first, this.#chunks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#chunks[middle] as Chunk).offset <= offset) low = middle;
      else high = middle - 1;
    }
    return this.#chunks[low] as Chunk;
  }

  /** Views of the bytes from `from` to `to`. */
  slice(from: number, to: number): Uint8Array[] {
    const pieces: Uint8Array[] = [];
    for (let at = from; at < to; ) {
      const { offset, data } = this.at(at);
      const piece = data.subarray(at - offset, to - offset);
      pieces.push(piece);
      at += piece.length;
    }
    return pieces;
  }
}
