/**
 * Memory that a socket is read into. Whoever keeps a view of it holds it, and lets it go as often; then it is read into
 * again. What is never let go is left to the garbage collector: those who do not know of this may keep what they get.
 */
import { Buffer } from 'node:buffer';
import type { OnReadOpts } from 'node:net';

/** Bytes. */
export interface ReadSizes {
  /** Memory that is held as one. */
  readonly block: number;
  /** A block with less room than this is done. */
  readonly leastRead: number;
  /** A view of fewer bytes is copied instead of held, so that little data never keeps much memory. */
  readonly leastHeld: number;
}

const SIZES: ReadSizes = { block: 256 * 1024, leastRead: 64 * 1024, leastHeld: 32 * 1024 };
/** Free blocks that are kept for a busy connection. */
const MOST_SPARE = 8;

/** A part of the memory, with the number of those who need a view of it. */
class Block {
  readonly memory: Buffer;
  readonly leastHeld: number;
  readonly #free: (block: Block) => void;
  #holders = 0;

  constructor(sizes: ReadSizes, free: (block: Block) => void) {
    this.memory = Buffer.allocUnsafeSlow(sizes.block);
    this.leastHeld = sizes.leastHeld;
    this.#free = free;
    blocks.set(this.memory.buffer, this);
  }

  get isHeld(): boolean {
    return this.#holders > 0;
  }

  hold(): void {
    this.#holders += 1;
  }

  letGo(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.#free(this);
  }
}

const blocks = new WeakMap<ArrayBufferLike, Block>();

/** Keeps the memory of a view from being read into; a view of any other memory is nobody's matter. */
export function hold(view: Uint8Array): void {
  blocks.get(view.buffer)?.hold();
}

/** Takes back one `hold`, or that of data which a `RunnerExecution` gave out. The caller has no use for the view any more. */
export function letGo(view: Uint8Array): void {
  blocks.get(view.buffer)?.letGo();
}

/** The data, held; or a copy of it where that takes less. */
export function keep(data: Buffer): Buffer {
  const block = blocks.get(data.buffer);
  if (block === undefined) return data;
  if (data.length < block.leastHeld) return Buffer.from(data);
  block.hold();
  return data;
}

/** The data for good: a copy of what would be read into again. */
export function own(data: Uint8Array): Uint8Array {
  return blocks.has(data.buffer) ? Buffer.from(data) : data;
}

/** Reads of one socket, which is made with its `options`. */
export class ReadMemory {
  /** For `onread` of the socket. */
  readonly options: OnReadOpts;
  readonly #sizes: ReadSizes;
  #block: Block;
  #at = 0;
  readonly #spare: Block[] = [];
  #sink: ((data: Buffer) => void) | null = null;
  /** What came before there was a sink. */
  #early: Buffer[] = [];

  constructor(sizes = SIZES) {
    this.#sizes = sizes;
    this.#block = this.#newBlock();
    this.options = {
      buffer: () => this.#block.memory.subarray(this.#at),
      callback: (count) => {
        this.#read(count);
        return true;
      },
    };
  }

  /** Gives every read to `sink`, which keeps of it what it holds when it returns. */
  deliverTo(sink: (data: Buffer) => void): void {
    this.#sink = sink;
    const early = this.#early;
    this.#early = [];
    for (const data of early) sink(data);
  }

  #read(count: number): void {
    const data = this.#block.memory.subarray(this.#at, this.#at + count);
    if (this.#sink === null) this.#early.push(Buffer.from(data));
    else this.#sink(data);
    if (!this.#block.isHeld) {
      this.#at = 0;
      return;
    }
    this.#at += count;
    if (this.#sizes.block - this.#at >= this.#sizes.leastRead) return;
    this.#block = this.#spare.pop() ?? this.#newBlock();
    this.#at = 0;
  }

  #newBlock(): Block {
    return new Block(this.#sizes, (block) => {
      // The one that is being read into begins anew at its next read.
      if (block !== this.#block && this.#spare.length < MOST_SPARE) this.#spare.push(block);
    });
  }
}
