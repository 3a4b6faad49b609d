/**
 * The log of one stream: redacted bytes with offsets from 0 on. It keeps the first `head` and the last `tail` of them;
 * what lies between, or could not be kept, is a gap. New bytes are in memory, older ones in a file or in the journal.
 */
import type { RedactorPosition } from '@boxkite/policy';
import { hold, letGo } from '@boxkite/runner-client';
import { ChunkQueue } from './chunk-queue.ts';
import { type Checkpoint, type LogFile, SLACK_BYTES } from './log-file.ts';

/** How many bytes a log keeps from its start and from its end. */
export interface Window {
  readonly head: number;
  readonly tail: number;
}

/** Bytes of a log outside memory. */
export interface StoredBytes {
  /** Some bytes from `offset` on, at least one and at most `length`. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** What comes next at an offset. */
export type Next =
  | { readonly kind: 'chunk'; readonly data: Uint8Array; readonly order: number }
  /** To be read by `load`. */
  | { readonly kind: 'stored' }
  | { readonly kind: 'gap'; readonly to: number }
  /** Nothing yet. */
  | { readonly kind: 'none' };

/** Written bytes that stay in memory for readers that are nearly there. */
export const RECENT_BYTES = 1024 * 1024;
/** A reader that is behind gets so much at once. */
const READ_BYTES = 64 * 1024;
/** Numbers of values that a page of a file has room for; without the others a placeholder may be told twice. */
const MOST_COVERED = 500;

/** One stream of one exec. */
export class StreamLog {
  #window: Window;
  readonly #queue: ChunkQueue;
  #headEnd: number;
  #tailFrom: number;
  #stored: StoredBytes | null = null;
  #file: LogFile | null = null;
  /** End of what is stored. */
  #durable: number;
  /** What the page of the file says. */
  #marked: Checkpoint | null = null;

  /** An empty log, or one that goes on from what is stored. */
  constructor(window: Window, from?: Pick<Checkpoint, 'end' | 'headEnd' | 'tailFrom'>, stored?: StoredBytes) {
    this.#window = window;
    this.#headEnd = from?.headEnd ?? window.head;
    this.#tailFrom = from?.tailFrom ?? 0;
    this.#durable = from?.end ?? 0;
    this.#queue = new ChunkQueue(this.#durable);
    this.#stored = stored ?? null;
  }

  /** Offset of the next byte. */
  get end(): number {
    return this.#queue.end;
  }

  get window(): Window {
    return this.#window;
  }

  get file(): LogFile | null {
    return this.#file;
  }

  /** Bytes that are only in memory. */
  get pending(): number {
    return this.end - this.#durable;
  }

  /** Bytes that it keeps. */
  get kept(): number {
    const { headEnd, tailFrom } = this.range();
    return headEnd + this.end - tailFrom;
  }

  append(data: Uint8Array, order: number): void {
    this.#queue.push(data, order);
  }

  /** `length` bytes are missing here. What of the tail was kept before them is no longer kept either. */
  skip(length: number): void {
    const to = this.end + length;
    this.#headEnd = Math.min(this.#headEnd, this.end);
    this.#tailFrom = to;
    this.#queue.restart(to);
    this.#durable = to;
  }

  /** What a reader at `offset` gets. */
  next(offset: number): Next {
    if (offset >= this.end) return { kind: 'none' };
    if (offset >= this.#queue.from) {
      const { offset: at, data, order } = this.#queue.at(offset);
      return { kind: 'chunk', data: at === offset ? data : data.subarray(offset - at), order };
    }
    const to = this.#keptFrom(offset);
    return to > offset ? { kind: 'gap', to } : { kind: 'stored' };
  }

  /** Reads stored bytes at `offset`; `null` where they went meanwhile, so that `next` is to be asked again. */
  async load(offset: number): Promise<Uint8Array | null> {
    const stored = this.#stored;
    if (stored === null) return null;
    const most = Math.min(READ_BYTES, this.#keptUntil(offset) - offset);
    try {
      const data = await stored.read(offset, most);
      return this.#keptFrom(offset) === offset && this.#stored === stored ? data : null;
    } catch (error) {
      if (this.#keptFrom(offset) === offset && this.#stored === stored) throw error;
      return null;
    }
  }

  /** Kept are the bytes before `headEnd`, and those from `tailFrom` to the end. */
  range(): { readonly headEnd: number; readonly tailFrom: number } {
    const headEnd = Math.min(this.#headEnd, this.end);
    return { headEnd, tailFrom: Math.max(headEnd, this.#keptTailFrom()) };
  }

  /** The kept bytes, where all of them are in memory. */
  inline(): readonly Uint8Array[] {
    const { headEnd, tailFrom } = this.range();
    return [...this.#queue.slice(0, headEnd), ...this.#queue.slice(tailFrom, this.end)];
  }

  /** From now on its bytes are read from there, and memory lets go of them. */
  settle(stored: StoredBytes | null): void {
    const { headEnd, tailFrom } = this.range();
    this.#headEnd = headEnd;
    this.#tailFrom = tailFrom;
    this.#stored = stored;
    this.#durable = this.end;
    this.#queue.restart(this.end);
  }

  /** Nothing of it is kept any more. */
  forget(): void {
    this.#headEnd = 0;
    this.#tailFrom = this.end;
    this.settle(null);
  }

  /** New bytes go into this file, which holds what is stored so far. */
  useFile(file: LogFile, checkpoint: Checkpoint | null): void {
    this.#file = file;
    this.#marked = checkpoint;
    this.#stored = file;
    this.#window = { head: file.head, tail: file.tail };
    this.#headEnd = Math.min(this.#headEnd, file.head);
  }

  /** Writes what is only in memory, and then what the file now is: all bytes that the raw ones up to `raw` gave. */
  async flush(raw: number, redactor: Omit<RedactorPosition, 'settled'>): Promise<void> {
    const file = this.#file;
    if (file === null) throw new Error('the log has no file');
    const { end } = this;
    await this.#makeRoom(file, end);
    for (let from = this.#durable; from < end; ) {
      // Bytes that are outside of what is kept already are not worth a write.
      const useful = from < this.#headEnd ? from : Math.max(from, Math.min(end, end - this.#window.tail));
      const to = Math.min(end, useful + SLACK_BYTES, useful < this.#headEnd ? this.#headEnd : end);
      if (to > useful) await writeHeld(file, useful, this.#queue.slice(useful, to));
      from = to;
    }
    const headEnd = Math.min(this.#headEnd, this.#window.head);
    const tailFrom = Math.max(this.#tailFrom, Math.min(headEnd, end), end - this.#window.tail);
    const values = redactor.values.slice(0, MOST_COVERED);
    this.#marked = { raw, end, headEnd, tailFrom, redactor: { ...redactor, values } };
    await file.mark(this.#marked);
    this.#durable = Math.max(this.#durable, end);
  }

  /** Bytes up to here can't be stored: they are gone once nobody near the end needs them. */
  giveUp(end: number): void {
    this.#headEnd = Math.min(this.#headEnd, this.#durable);
    this.#tailFrom = Math.max(this.#tailFrom, end);
    this.#durable = Math.max(this.#durable, end);
  }

  /** Lets go of stored bytes in memory but for the recent ones that a reader still has to get. */
  trim(lowestReader: number): void {
    const keepFrom = Math.max(this.end - RECENT_BYTES, lowestReader);
    this.#queue.dropBefore(Math.min(this.#durable, keepFrom));
  }

  /** The page must not promise bytes of the ring that are about to be overwritten. */
  async #makeRoom(file: LogFile, end: number): Promise<void> {
    const marked = this.#marked;
    const overwritten = end - this.#window.tail - SLACK_BYTES;
    if (marked === null || overwritten <= marked.tailFrom) return;
    await file.mark({ ...marked, tailFrom: Math.min(marked.end, overwritten) });
  }

  #keptTailFrom(): number {
    return Math.max(this.#tailFrom, this.end - this.#window.tail);
  }

  /** The first kept offset from `offset` on. */
  #keptFrom(offset: number): number {
    return offset < Math.min(this.#headEnd, this.end) ? offset : Math.max(offset, this.#keptTailFrom());
  }

  #keptUntil(offset: number): number {
    return Math.min(offset < this.#headEnd ? this.#headEnd : this.end, this.#durable, this.end);
  }
}

/** Other holders may let go of the bytes while they are written. */
async function writeHeld(file: LogFile, offset: number, pieces: readonly Uint8Array[]): Promise<void> {
  for (const piece of pieces) hold(piece);
  try {
    await file.write(offset, pieces);
  } finally {
    for (const piece of pieces) letGo(piece);
  }
}
