import { KnownScanner } from './known-scanner.ts';
import { type KnownSecrets, KnownValues } from './known-values.ts';

/** Options of a redactor. */
export interface RedactorOptions {
  /** Called at each placeholder that is written, with the placeholder: for counters, never with a value. */
  readonly onRedacted?: (placeholder: string) => void;
}

/**
 * Hides known values in text that arrives in pieces. What may be the beginning of a hit is held back, at most four times
 * the longest form plus 4096 characters (`KnownValues` sets that bound), plus one form. The outputs of all calls joined
 * are the same wherever the input was cut. A guard rail: a program can always spell a value in a way that is not looked for.
 */
export interface Redactor {
  /** Takes the next piece and returns what can be told by now; a piece with nothing to hide or hold comes back as it is. */
  push(chunk: string): string;
  /** Returns what is held back; the redactor can then be used for another stream. */
  flush(): string;
}

/** The same for raw bytes, where values are looked for in UTF-8 and anything else passes unchanged. */
export interface ByteRedactor {
  /** Takes the next piece. The answer may be the piece or a view of it, so it must not be overwritten before use. */
  push(chunk: Uint8Array): Uint8Array;
  /** Returns what is held back; the redactor can then be used for another stream. */
  flush(): Uint8Array;
}

/** Units that are given to the scanner at once. */
const SLICE = 1 << 15;

/** How the pieces of one kind of stream are read, cut and joined. */
interface Medium<Piece> {
  readonly empty: Piece;
  length(piece: Piece): number;
  copy(piece: Piece, from: number, to: number, units: Uint16Array, at: number): void;
  slice(piece: Piece, from: number, to: number): Piece;
  concat(one: Piece, two: Piece): Piece;
  join(pieces: Piece[]): Piece;
  /** A copy that does not change when the caller reuses the memory of a piece. */
  keep(piece: Piece): Piece;
  literal(text: string): Piece;
}

const TEXT: Medium<string> = {
  empty: '',
  length: (piece) => piece.length,
  copy: (piece, from, to, units, at) => {
    for (let index = from; index < to; index += 1) units[at + index - from] = piece.charCodeAt(index);
  },
  slice: (piece, from, to) => piece.slice(from, to),
  concat: (one, two) => one + two,
  join: (pieces) => (pieces.length === 1 ? (pieces[0] ?? '') : pieces.join('')),
  keep: (piece) => piece,
  literal: (text) => text,
};

const BYTES: Medium<Uint8Array> = {
  empty: new Uint8Array(0),
  length: (piece) => piece.length,
  copy: (piece, from, to, units, at) => units.set(piece.subarray(from, to), at),
  slice: (piece, from, to) => piece.subarray(from, to),
  concat: (one, two) => joinBytes([one, two]),
  join: joinBytes,
  keep: (piece) => new Uint8Array(piece),
  literal: (text) => Uint8Array.from(text, (character) => character.charCodeAt(0)),
};

function joinBytes(pieces: Uint8Array[]): Uint8Array {
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return only;
  const joined = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}

/** Joins two pieces; the one that is not empty comes back as it is. */
function append<Piece>(medium: Medium<Piece>, one: Piece, two: Piece): Piece {
  if (medium.length(one) === 0) return two;
  if (medium.length(two) === 0) return one;
  return medium.concat(one, two);
}

class StreamRedactor<Piece> {
  readonly #medium: Medium<Piece>;
  readonly #known: KnownValues;
  readonly #options: RedactorOptions;
  readonly #tables: ReturnType<KnownValues['tables']>;
  #scanner: KnownScanner | undefined;
  /** Text from the position `#heldFrom` on that has not been given out. */
  #held: Piece;
  #heldFrom = 0;
  /** Everything before this position is given out or hidden; it may lie ahead of the scanner's safe position. */
  #done = 0;
  /** Values whose placeholders stand for the text that ends at `#done`. */
  readonly #cover = new Set<number>();
  /** Placeholders written so far, as pieces. */
  readonly #literals = new Map<number, Piece>();

  constructor(medium: Medium<Piece>, known: KnownValues, units: 'utf16' | 'utf8', options: RedactorOptions) {
    this.#medium = medium;
    this.#known = known;
    this.#options = options;
    this.#tables = known.tables(units);
    this.#held = medium.empty;
  }

  push(chunk: Piece): Piece {
    const medium = this.#medium;
    if (this.#tables === undefined || medium.length(chunk) === 0) return chunk;
    const scanner = this.#scanner ?? new KnownScanner(this.#tables);
    this.#scanner = scanner;
    const pieces: Piece[] = [];
    const text = append(medium, this.#held, chunk);
    const length = medium.length(chunk);
    let cleanFrom = this.#done;
    for (let from = 0; from < length; from += SLICE) {
      const to = Math.min(from + SLICE, length);
      const { units, at } = scanner.reserve(to - from);
      medium.copy(chunk, from, to, units, at);
      scanner.scan();
      cleanFrom = this.#hide(text, pieces, cleanFrom, scanner.safe);
    }
    const safe = scanner.safe;
    this.#give(text, pieces, cleanFrom, safe);
    this.#done = Math.max(this.#done, safe);
    this.#hold(text, safe);
    return medium.join(pieces);
  }

  flush(): Piece {
    const scanner = this.#scanner;
    if (scanner === undefined) return this.#medium.empty;
    const pieces: Piece[] = [];
    const cleanFrom = this.#hide(this.#held, pieces, this.#done, scanner.end);
    this.#give(this.#held, pieces, cleanFrom, scanner.end);
    this.#scanner = undefined;
    this.#held = this.#medium.empty;
    this.#heldFrom = 0;
    this.#done = 0;
    this.#cover.clear();
    return this.#medium.join(pieces);
  }

  /**
   * Writes the hits that begin before `safe`, and the clean text between them; returns where the next clean text begins.
   * Overlapping hits are hidden as one stretch, with one placeholder for each of their values.
   */
  #hide(text: Piece, pieces: Piece[], cleanFrom: number, safe: number): number {
    let from = cleanFrom;
    for (const hit of this.#scanner?.takeHits(safe) ?? []) {
      if (hit.start >= this.#done) {
        this.#give(text, pieces, from, hit.start);
        this.#cover.clear();
      }
      if (!this.#cover.has(hit.value)) this.#write(pieces, hit.value);
      this.#done = Math.max(this.#done, hit.end);
      from = this.#done;
    }
    return from;
  }

  #write(pieces: Piece[], value: number): void {
    this.#cover.add(value);
    const literal = this.#literals.get(value) ?? this.#medium.literal(this.#known.placeholder(value));
    this.#literals.set(value, literal);
    pieces.push(this.#medium.keep(literal));
    this.#options.onRedacted?.(this.#known.placeholder(value));
  }

  #give(text: Piece, pieces: Piece[], from: number, to: number): void {
    if (from >= to) return;
    const [start, end] = [from - this.#heldFrom, to - this.#heldFrom];
    const whole = start === 0 && end === this.#medium.length(text);
    pieces.push(whole ? text : this.#medium.slice(text, start, end));
  }

  #hold(text: Piece, safe: number): void {
    const medium = this.#medium;
    const length = medium.length(text);
    const start = safe - this.#heldFrom;
    this.#held = start < length ? medium.keep(medium.slice(text, start, length)) : medium.empty;
    this.#heldFrom = safe;
  }
}

/**
 * A redactor for decoded text. Bytes must have been decoded as what they are: a value with letters beyond ASCII is not
 * found in UTF-8 that was decoded as Latin-1; use `createByteRedactor` for raw output.
 * @param known The values by name, or the result of an earlier `new KnownValues(…)`.
 * @throws KnownValuesError beyond the limits.
 */
export function createRedactor(known: KnownSecrets | KnownValues, options: RedactorOptions = {}): Redactor {
  return new StreamRedactor(TEXT, prepared(known), 'utf16', options);
}

/** A redactor for raw bytes; see `createRedactor`. */
export function createByteRedactor(known: KnownSecrets | KnownValues, options: RedactorOptions = {}): ByteRedactor {
  return new StreamRedactor(BYTES, prepared(known), 'utf8', options);
}

function prepared(known: KnownSecrets | KnownValues): KnownValues {
  return known instanceof KnownValues ? known : new KnownValues(known);
}
