import { KnownScanner } from './known-scanner.ts';
import { type KnownSecrets, KnownValues } from './known-values.ts';
import { narrowed, type UnitBuffer } from './unit-buffer.ts';

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
  /** The same in parts that are not empty, all but placeholders views of the piece: nothing clean is copied. */
  pushParts(chunk: Uint8Array): Uint8Array[];
  /** Returns what is held back; the redactor can then be used for another stream. */
  flush(): Uint8Array;
}

/** Units that are given to the scanner at once. */
const SLICE = 1 << 15;

/** How the pieces of one kind of stream are read, cut and joined. */
interface Medium<Piece> {
  readonly empty: Piece;
  length(piece: Piece): number;
  copy(piece: Piece, from: number, to: number, buffer: UnitBuffer, at: number): void;
  slice(piece: Piece, from: number, to: number): Piece;
  join(pieces: Piece[]): Piece;
  /** A copy that does not change when the caller reuses the memory of a piece. */
  keep(piece: Piece): Piece;
  literal(text: string): Piece;
}

const TEXT: Medium<string> = {
  empty: '',
  length: (piece) => piece.length,
  copy: (piece, from, to, { units, narrow }, at) => {
    const shift = at - from;
    let seen = 0;
    for (let index = from; index < to; index += 1) {
      const unit = piece.charCodeAt(index);
      units[index + shift] = unit;
      narrow[index + shift] = unit;
      seen |= unit;
    }
    if (seen < 0x100) return;
    for (let index = at; index < to + shift; index += 1) narrow[index] = narrowed(units[index] as number);
  },
  slice: (piece, from, to) => piece.slice(from, to),
  join: (pieces) => (pieces.length === 1 ? (pieces[0] ?? '') : pieces.join('')),
  keep: (piece) => piece,
  literal: (text) => text,
};

const NO_BYTES = new Uint8Array(0);

const BYTES: Medium<Uint8Array> = {
  empty: NO_BYTES,
  length: (piece) => piece.length,
  copy: (piece, from, to, { narrow }, at) => narrow.set(piece.subarray(from, to), at),
  slice: (piece, from, to) => piece.subarray(from, to),
  join: joinBytes,
  keep: (piece) => (piece.length === 0 ? NO_BYTES : new Uint8Array(piece)),
  literal: (text) => Uint8Array.from(text, (character) => character.charCodeAt(0)),
};

function joinBytes(pieces: Uint8Array[]): Uint8Array {
  const [only] = pieces;
  if (only === undefined) return NO_BYTES;
  if (pieces.length === 1) return only;
  const joined = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
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
    return this.#medium.join(this.pushParts(chunk));
  }

  pushParts(chunk: Piece): Piece[] {
    const medium = this.#medium;
    const length = medium.length(chunk);
    if (length === 0) return [];
    if (this.#tables === undefined) return [chunk];
    const scanner = this.#scanner ?? new KnownScanner(this.#tables);
    this.#scanner = scanner;
    const pieces: Piece[] = [];
    let cleanFrom = this.#done;
    for (let from = 0; from < length; from += SLICE) {
      const to = Math.min(from + SLICE, length);
      const { buffer, at } = scanner.reserve(to - from);
      medium.copy(chunk, from, to, buffer, at);
      scanner.scan();
      cleanFrom = this.#hide(chunk, pieces, cleanFrom, scanner.safe);
    }
    const safe = scanner.safe;
    this.#give(chunk, pieces, cleanFrom, safe);
    this.#done = Math.max(this.#done, safe);
    this.#hold(chunk, safe);
    return pieces;
  }

  flush(): Piece {
    const scanner = this.#scanner;
    if (scanner === undefined) return this.#medium.empty;
    const pieces: Piece[] = [];
    const cleanFrom = this.#hide(this.#medium.empty, pieces, this.#done, scanner.end);
    this.#give(this.#medium.empty, pieces, cleanFrom, scanner.end);
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
  #hide(chunk: Piece, pieces: Piece[], cleanFrom: number, safe: number): number {
    let from = cleanFrom;
    for (const hit of this.#scanner?.takeHits(safe) ?? []) {
      if (hit.start >= this.#done) {
        this.#give(chunk, pieces, from, hit.start);
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

  /** Adds what stands from one position to another in the held text and the piece behind it. */
  #give(chunk: Piece, pieces: Piece[], from: number, to: number): void {
    const chunkFrom = this.#heldFrom + this.#medium.length(this.#held);
    this.#cut(this.#held, this.#heldFrom, pieces, from, to);
    this.#cut(chunk, chunkFrom, pieces, from, to);
  }

  #cut(piece: Piece, pieceFrom: number, pieces: Piece[], from: number, to: number): void {
    const medium = this.#medium;
    const start = Math.max(0, from - pieceFrom);
    const end = Math.min(medium.length(piece), to - pieceFrom);
    if (start >= end) return;
    pieces.push(start === 0 && end === medium.length(piece) ? piece : medium.slice(piece, start, end));
  }

  #hold(chunk: Piece, safe: number): void {
    const pieces: Piece[] = [];
    this.#give(chunk, pieces, safe, Infinity);
    this.#held = this.#medium.keep(this.#medium.join(pieces));
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
