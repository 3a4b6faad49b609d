/** Says on a terminal how far a long copy is. */
import type { CommandIo } from '../io.ts';
import { sizeText } from '../text.ts';

const FIRST_MS = 500;
const BETWEEN_MS = 200;

/** What was copied. */
export class Progress {
  readonly #io: CommandIo;
  readonly #shown: boolean;
  readonly #started = performance.now();
  #next: number;
  #total: number | null = null;
  #visible = false;
  bytes = 0;
  files = 0;
  /** What was not copied, each with its reason. */
  readonly omitted: string[] = [];

  constructor(io: CommandIo) {
    this.#io = io;
    this.#shown = io.isTerminal(2);
    this.#next = this.#started + FIRST_MS;
  }

  /** How many bytes it will be, where that is known. */
  expect(total: number): void {
    this.#total = total;
  }

  add(bytes: number): void {
    this.bytes += bytes;
    const now = performance.now();
    if (!this.#shown || now < this.#next) return;
    this.#next = now + BETWEEN_MS;
    this.#visible = true;
    this.#io.stderr().write(`\r${this.#line(now)}\x1b[K`);
  }

  /** Counts what passes. */
  async *count(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const part of parts) {
      this.add(part.length);
      yield part;
    }
  }

  /** Leaves the line empty. */
  end(): void {
    if (this.#visible) this.#io.stderr().write('\r\x1b[K');
    this.#visible = false;
  }

  #line(now: number): string {
    const rate = `${sizeText(Math.round((this.bytes * 1000) / (now - this.#started)))}/s`;
    if (this.#total === null || this.#total === 0) return `${sizeText(this.bytes)}   ${rate}`;
    const share = Math.min(100, Math.floor((this.bytes * 100) / this.#total));
    return `${sizeText(this.bytes)} of ${sizeText(this.#total)}   ${share} %   ${rate}`;
  }
}
