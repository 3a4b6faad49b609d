/** Lines of a text that arrives in pieces: what was asked for is kept, up to a bound, and the rest is counted. */

/** Characters that a view shows. */
export const mostShown = 102_400;

const LINE_FEED = '\n';

/** Which lines: from and to (inclusive), counted from 1; a second number of -1 is the last line. */
export type LineRange = readonly [first: number, last: number];

/** Collects the lines of a range. */
export class LineView {
  readonly #first: number;
  readonly #last: number;
  #line = 1;
  #shown = '';
  #isFull = false;

  constructor(range: LineRange | null) {
    const [first, last] = range ?? [1, -1];
    this.#first = Math.max(1, first);
    this.#last = last === -1 ? Number.POSITIVE_INFINITY : last;
  }

  /** Whether more text changes nothing. */
  get isDone(): boolean {
    return this.#isFull || this.#line > this.#last;
  }

  push(text: string): void {
    for (let at = 0; at < text.length && !this.isDone; ) {
      const end = text.indexOf(LINE_FEED, at);
      const isWanted = this.#line >= this.#first;
      // Whole text is taken as it comes, since no line of it ends what is wanted.
      const upTo =
        isWanted && this.#last === Number.POSITIVE_INFINITY ? text.length : end === -1 ? text.length : end + 1;
      if (isWanted) this.#show(text.slice(at, upTo));
      if (upTo === end + 1 && end !== -1) this.#line += 1;
      at = upTo;
    }
  }

  /** What is shown; `truncated` where there is more of it. */
  finish(): { readonly content: string; readonly truncated: boolean } {
    if (this.#isFull) return { content: this.#shown, truncated: true };
    // The end of the last line of a range is not part of what joins its lines.
    const ended = this.#line > this.#last && this.#shown.endsWith(LINE_FEED);
    return { content: ended ? this.#shown.slice(0, -1) : this.#shown, truncated: false };
  }

  #show(text: string): void {
    const room = mostShown - this.#shown.length;
    if (text.length <= room) {
      this.#shown += text;
      return;
    }
    this.#shown += wholeCharacters(text, room);
    this.#isFull = true;
  }
}

/** Up to `most` code units, and no half of a character. */
export function wholeCharacters(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

/** Line feeds in bytes. */
export function countLines(bytes: Uint8Array): number {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let found = 0;
  for (let at = buffer.indexOf(10); at !== -1; at = buffer.indexOf(10, at + 1)) found += 1;
  return found;
}
