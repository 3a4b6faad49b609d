import { KnownScanner } from './known-scanner.ts';
import { type KnownSecrets, KnownValues } from './known-values.ts';
import {
  FIRST_PATTERN_VALUE,
  type PatternCheckpoint,
  PatternScanner,
  type PatternState,
  patternPlaceholder,
  type StreamHit,
} from './patterns/pattern-scanner.ts';
import { ByteSource, type PatternSource, TextSource } from './patterns/pattern-source.ts';
import { textTrigger } from './patterns/triggers.ts';
import { narrowed, type UnitBuffer } from './unit-buffer.ts';

/** Options of a redactor. */
export interface RedactorOptions {
  /**
   * Whether credentials are also found by their format (a vendor's token, a private key) and by their label
   * (`password=…`, `Authorization: …`); true if it is absent. Without, known values alone are hidden.
   */
  readonly patterns?: boolean;
  /** Called at each placeholder that is written, with the placeholder: for counters, never with a value. */
  readonly onRedacted?: (placeholder: string) => void;
  /** Goes on where another redactor of the same values stood; the text from `settled` on is pushed again. */
  readonly from?: RedactorPosition;
}

/** Where a redactor stands, as plain data without any text. */
export interface RedactorPosition {
  /** Units of the text since the redactor began whose share of the output has been given out, and no unit behind them. */
  readonly settled: number;
  /** Units behind these that the placeholders given out last stand for already. */
  readonly covered: number;
  /** Numbers of the values of those placeholders. */
  readonly values: readonly number[];
  /** Comparisons made, less those that the text so far allows. */
  readonly steps: number;
  /** The same for the search by format and label, where there is one. */
  readonly patterns?: PatternPosition;
}

/** Where the search for formats and labels stands. */
export interface PatternPosition extends PatternState {
  /** Units behind `settled` whose share of the output has been given out already. */
  readonly given: number;
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
  /** Where it stands after the last push. */
  position(): RedactorPosition;
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
  source(piece: Piece): PatternSource;
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
  source: (piece) => new TextSource(piece),
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
  source: (piece) => new ByteSource(piece),
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
  #patterns: PatternScanner | undefined;
  /** Where the patterns can be taken up again, oldest first. */
  #checkpoints: PatternCheckpoint[] = [];
  /** Hits that begin before this position have been dealt with by another redactor. */
  #dealtWith = 0;
  /** Units of the text so far. */
  #passed = 0;
  #steps = 0;
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
    const { from } = options;
    if (from === undefined) return;
    this.#steps = from.steps;
    this.#done = from.covered;
    for (const value of from.values) this.#cover.add(value);
    this.#dealtWith = from.patterns?.given ?? 0;
    if (options.patterns === false || from.patterns === undefined) return;
    this.#patterns = new PatternScanner(from.patterns);
    this.#checkpoints = [this.#patterns.checkpoint];
  }

  push(chunk: Piece): Piece {
    return this.#medium.join(this.pushParts(chunk));
  }

  pushParts(chunk: Piece): Piece[] {
    const medium = this.#medium;
    const length = medium.length(chunk);
    if (length === 0) return [];
    const scanner = this.#knownScanner();
    const patterns = this.#patternScanner();
    if (scanner === undefined && patterns === undefined) {
      this.#passed += length;
      return [chunk];
    }
    patterns?.push(medium.source(chunk));
    const pieces: Piece[] = [];
    let cleanFrom = this.#done;
    for (let from = 0; scanner !== undefined && from < length; from += SLICE) {
      const to = Math.min(from + SLICE, length);
      const { buffer, at } = scanner.reserve(to - from);
      medium.copy(chunk, from, to, buffer, at);
      scanner.scan();
      cleanFrom = this.#hide(chunk, pieces, cleanFrom, Math.min(scanner.safe, patterns?.safe ?? Infinity));
    }
    this.#passed += length;
    const safe = this.#safe;
    cleanFrom = this.#hide(chunk, pieces, cleanFrom, safe);
    this.#give(chunk, pieces, cleanFrom, safe);
    this.#done = Math.max(this.#done, safe);
    this.#hold(chunk, safe);
    if (patterns !== undefined) this.#addCheckpoint(patterns.checkpoint);
    return pieces;
  }

  flush(): Piece {
    const { empty } = this.#medium;
    const end = this.#passed;
    this.#patterns?.finish();
    const pieces: Piece[] = [];
    if (this.#scanner !== undefined || this.#patterns !== undefined) {
      const cleanFrom = this.#hide(empty, pieces, this.#done, end);
      this.#give(empty, pieces, cleanFrom, end);
    }
    this.#scanner = undefined;
    this.#patterns = undefined;
    this.#checkpoints = [];
    this.#dealtWith = 0;
    this.#passed = 0;
    this.#steps = 0;
    this.#held = empty;
    this.#heldFrom = 0;
    this.#done = 0;
    this.#cover.clear();
    return this.#medium.join(pieces);
  }

  position(): RedactorPosition {
    const scanner = this.#scanner;
    const [checkpoint] = this.#checkpoints;
    const settled = checkpoint?.at ?? this.#safe;
    const covered = Math.max(0, this.#done - settled);
    return {
      settled,
      covered,
      values: covered === 0 ? [] : [...this.#cover],
      steps: scanner === undefined ? this.#steps : scanner.steps,
      ...(checkpoint && { patterns: { ...checkpoint.state, given: this.#safe - settled } }),
    };
  }

  /** Everything before this position can be given out or hidden. */
  get #safe(): number {
    return Math.min(this.#scanner?.safe ?? this.#passed, this.#patterns?.safe ?? this.#passed);
  }

  #knownScanner(): KnownScanner | undefined {
    if (this.#tables !== undefined) this.#scanner ??= new KnownScanner(this.#tables, this.#steps);
    return this.#scanner;
  }

  #patternScanner(): PatternScanner | undefined {
    if (this.#options.patterns === false) return undefined;
    if (this.#patterns === undefined) {
      this.#patterns = new PatternScanner();
      this.#checkpoints = [this.#patterns.checkpoint];
    }
    return this.#patterns;
  }

  /** Keeps the last checkpoint that the other scanner has reached as well, and the later ones. */
  #addCheckpoint(checkpoint: PatternCheckpoint): void {
    const checkpoints = this.#checkpoints;
    if (checkpoints.at(-1)?.at !== checkpoint.at) checkpoints.push(checkpoint);
    const reached = this.#scanner?.safe ?? Infinity;
    let first = 0;
    while (first + 1 < checkpoints.length && (checkpoints[first + 1]?.at ?? 0) <= reached) first += 1;
    if (first > 0) this.#checkpoints = checkpoints.slice(first);
  }

  /** Hits that begin before a position, in order; a known value comes before a pattern at the same place. */
  #takeHits(before: number): readonly StreamHit[] {
    const known: readonly StreamHit[] = this.#scanner?.takeHits(before) ?? [];
    const patterns = this.#patterns?.takeHits(before) ?? [];
    return patterns.length === 0 ? known : [...known, ...patterns].sort((one, two) => one.start - two.start);
  }

  /**
   * Writes the hits that begin before `safe`, and the clean text between them; returns where the next clean text begins.
   * Overlapping hits are hidden as one stretch, with one placeholder for each of their values.
   */
  #hide(chunk: Piece, pieces: Piece[], cleanFrom: number, safe: number): number {
    let from = cleanFrom;
    for (const hit of this.#takeHits(safe)) {
      const isHidden = hit.value >= FIRST_PATTERN_VALUE && hit.end <= this.#done;
      if (hit.start < this.#dealtWith || isHidden) continue;
      if (hit.start >= this.#done) {
        this.#give(chunk, pieces, from, hit.start);
        this.#cover.clear();
      }
      if (hit.continued !== true && !this.#cover.has(hit.value)) this.#write(pieces, hit.value);
      this.#done = Math.max(this.#done, hit.end);
      from = this.#done;
    }
    return from;
  }

  #write(pieces: Piece[], value: number): void {
    this.#cover.add(value);
    const literal = this.#literals.get(value) ?? this.#medium.literal(this.#placeholder(value));
    this.#literals.set(value, literal);
    pieces.push(this.#medium.keep(literal));
    this.#options.onRedacted?.(this.#placeholder(value));
  }

  #placeholder(value: number): string {
    return value < FIRST_PATTERN_VALUE ? this.#known.placeholder(value) : patternPlaceholder(value);
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

/** A whole text with what is known hidden, and what is a credential by its format or label unless `patterns` is false. */
export function hideSecrets(
  text: string,
  known: KnownSecrets | KnownValues,
  options: Pick<RedactorOptions, 'patterns'> = {},
): string {
  const values = prepared(known);
  // Most texts have nothing to look at, which takes less than making what would look.
  if (values.tables('utf16') === undefined && (options.patterns === false || textTrigger(text) < 0)) return text;
  const redactor = createRedactor(values, options);
  return redactor.push(text) + redactor.flush();
}

/** A text without what is a credential by its format or its label. */
export function hideCredentials(text: string): string {
  return hideSecrets(text, {});
}

function prepared(known: KnownSecrets | KnownValues): KnownValues {
  return known instanceof KnownValues ? known : new KnownValues(known);
}
