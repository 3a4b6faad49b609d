import { openToken } from './formats.ts';
import { PATTERN_KINDS, type PatternHit, type PatternKind } from './hit.ts';
import { analyzeLine, findKeyBeginning, merged, openFrom, openKeyBeginning, tokensIn } from './line-analysis.ts';
import type { PatternSource } from './pattern-source.ts';
import { TRIGGER_REACH, textTrigger } from './triggers.ts';

/** A hit in a stream. `value` is that of a placeholder. */
export interface StreamHit {
  readonly start: number;
  readonly end: number;
  readonly value: number;
  /** Goes on with the hit before it, under the same placeholder. */
  readonly continued?: boolean;
}

/** Where a scanner stands at the beginning of a line, as plain data. */
export interface PatternState {
  /** The private key that the line lies in, by the words of its BEGIN line; `null` outside of one. */
  readonly key: string | null;
  /** The text before ends in a letter or digit, so that no token begins here. */
  readonly inWord: boolean;
  /** A value that was too long to be looked at together goes on here. */
  readonly inValue: boolean;
}

/** A position from which a scanner can go on. */
export interface PatternCheckpoint {
  readonly at: number;
  readonly state: PatternState;
}

/** Values of placeholders from here on are kinds of patterns. */
export const FIRST_PATTERN_VALUE = 1 << 20;

/** Units of a line that are looked at together. */
const LONGEST_LINE = 16_384;
/** A trigger that begins in so many units of such a part ends in it. */
const CERTAIN = LONGEST_LINE - TRIGGER_REACH;
/** Units of a label that may stand before its trigger. */
const LABEL_REACH = 128;
/** Units of a part with nothing to look at that the next one begins with, and of its beginning to that. */
const CLEAN_KEPT = TRIGGER_REACH + LABEL_REACH;
const STRIDE = LONGEST_LINE - CLEAN_KEPT;
/** Units at the end of such a part that a token without its end may have. */
const TOKEN_REACH = 4096;
/** Units at the end of any other part that are looked at again. */
const KEPT = 256;
/** Widths at which tools break encoded text. */
const WRAPPED_AT = new Set([64, 76]);
const MOST_WRAPPED_LINES = 64;
/** Units of an END line that may still be incomplete. */
const END_REACH = 96;
/** Units that say whether a token can begin at the end of a line. */
const REACH = 64;
/** A longer incomplete line is looked at again when it has grown by an eighth. */
const SHORT_LINE = 256;
const OUTSIDE: PatternState = { key: null, inWord: false, inValue: false };

/** What stands for a hit with this value. */
export function patternPlaceholder(value: number): string {
  return `[redacted:${PATTERN_KINDS[value - FIRST_PATTERN_VALUE] ?? 'secret'}]`;
}

/**
 * Finds credentials by their format or label in a stream. It decides about whole lines, so that the result does not depend
 * on where the stream was cut, and tells early what no continuation of a line can hide.
 */
export class PatternScanner {
  /** The incomplete line, and lines before it that a token may fill; it begins at `#base`. */
  #carry = '';
  #base = 0;
  /** `#carry` has something to look at. */
  #triggered = false;
  #key: string | null;
  #inWord: boolean;
  #inValue: boolean;
  #safe = 0;
  #hits: StreamHit[] = [];
  /** Length of `#carry` when it was last looked at. */
  #seen = 0;

  constructor(state: PatternState = OUTSIDE) {
    this.#key = state.key;
    this.#inWord = state.inWord;
    this.#inValue = state.inValue;
  }

  /** Position before which no hit can begin that is not in `takeHits` already. */
  get safe(): number {
    return this.#safe;
  }

  /** Where another scanner can go on. */
  get checkpoint(): PatternCheckpoint {
    return { at: this.#base, state: { key: this.#key, inWord: this.#inWord, inValue: this.#inValue } };
  }

  /** Removes and returns the hits that begin before a position. */
  takeHits(before: number): StreamHit[] {
    let taken = 0;
    while (taken < this.#hits.length && (this.#hits[taken] as StreamHit).start < before) taken += 1;
    return this.#hits.splice(0, taken);
  }

  /** Takes the next piece of the stream. */
  push(source: PatternSource): void {
    for (let at = 0; at < source.length; ) {
      if (this.#inValue) at = this.#skipValue(source, at);
      else if (this.#carry === '' && this.#key === null) at = this.#findLine(source, at);
      else at = this.#extendLine(source, at);
    }
    this.#tellSafe();
  }

  /** Tells that no more text follows. */
  finish(): void {
    if (this.#carry !== '') {
      this.#report(this.#carry);
      this.#advance(this.#carry.length);
      this.#carry = '';
    }
    this.#safe = this.#base;
  }

  /** Goes to the next line that has something to look at, and takes what is there of it. */
  #findLine(source: PatternSource, from: number): number {
    const trigger = source.trigger(from);
    const reach = trigger < 0 ? source.length : trigger;
    let start = Math.max(from, source.newlineBefore(reach) + 1);
    // A line without anything is passed in parts of the same length, wherever the stream was cut.
    const newline = trigger < 0 ? -1 : source.newline(trigger);
    const end = newline < 0 ? source.length : newline;
    while (start + LONGEST_LINE <= end && (trigger < 0 || start + CERTAIN <= trigger)) start += STRIDE;
    if (start > from) {
      this.#inWord = isAlphanumeric(source.text(start - 1, start));
      this.#base += start - from;
    }
    return start < source.length ? this.#extendLine(source, start) : start;
  }

  /** Takes the rest of the line, or as much as is there; the index behind it. */
  #extendLine(source: PatternSource, from: number): number {
    const newline = source.newline(from);
    const room = LONGEST_LINE - (this.#carry.length - this.#carry.lastIndexOf('\n') - 1);
    const end = Math.min(newline < 0 ? source.length : newline, from + room);
    if (end - from === room && this.#isClean(source, from, end)) return this.#passPart(source, end);
    const text = source.text(from, end);
    this.#triggered ||= this.#key !== null || textTrigger(this.#carry.slice(-TRIGGER_REACH) + text) >= 0;
    this.#carry += text;
    if (end === newline) {
      this.#endLine();
      return end + 1;
    }
    if (end - from === room) this.#cutLine();
    return end;
  }

  /** Whether nothing in the line so far and up to `end` has to be looked at, other than what `#passPart` keeps. */
  #isClean(source: PatternSource, from: number, end: number): boolean {
    if (this.#triggered || this.#key !== null || this.#carry.includes('\n') || end - from <= CLEAN_KEPT) return false;
    const trigger = source.trigger(from);
    if (trigger >= 0 && trigger < end - TRIGGER_REACH) return false;
    return textTrigger(this.#carry.slice(-TRIGGER_REACH) + source.text(from, from + TRIGGER_REACH)) < 0;
  }

  /** What `#cutLine` does with a part in which there is nothing, without a copy of it. */
  #passPart(source: PatternSource, end: number): number {
    this.#inWord = isAlphanumeric(source.text(end - CLEAN_KEPT - 1, end - CLEAN_KEPT));
    this.#advance(STRIDE);
    this.#carry = source.text(end - CLEAN_KEPT, end);
    this.#triggered = textTrigger(this.#carry) >= 0;
    return end;
  }

  #endLine(): void {
    if (this.#triggered && this.#key === null && needsNextLine(this.#carry)) {
      this.#carry += '\n';
      return;
    }
    if (this.#triggered) this.#report(this.#carry);
    if (this.#key !== null) this.#add(this.#carry.length, this.#carry.length + 1, 'private-key', true);
    this.#advance(this.#carry.length + 1);
    this.#inWord = false;
    this.#carry = '';
  }

  /** Looks at the beginning of a line that is too long, and keeps what its continuation may change. */
  #cutLine(): void {
    const line = this.#carry;
    let kept = CLEAN_KEPT;
    if (this.#key !== null || textTrigger(line, 0, CERTAIN) >= 0) {
      const before = this.#hits.length;
      const touches = this.#report(line);
      if (this.#key !== null) kept = END_REACH;
      else if (touches) kept = 0;
      else kept = this.#postpone(line, before);
      this.#inValue = touches && this.#key === null;
    }
    const border = line.length - kept;
    // Where a token begins a word does, although an escape or a colour before it ends in a letter.
    this.#inWord = isAlphanumeric(line.charAt(border - 1)) && openToken(line) !== border;
    this.#advance(border);
    this.#carry = line.slice(border);
    this.#triggered = this.#key !== null || textTrigger(this.#carry) >= 0;
  }

  /**
   * Units at the end of a line that are looked at again with what follows: room for a label and the beginning of its value.
   * Hits there are told then; none of the others reaches into it.
   */
  #postpone(line: string, before: number): number {
    const token = openToken(line);
    const isOpen = token < line.length && line.length - token <= TOKEN_REACH;
    let border = Math.min(line.length - KEPT, isOpen ? token : line.length);
    const last = this.#base + line.length - KEPT + LABEL_REACH;
    let told = before;
    for (let hit = this.#hits[told]; hit !== undefined && hit.start < last; hit = this.#hits[told]) {
      border = Math.max(border, hit.end - this.#base);
      told += 1;
    }
    this.#hits.length = told;
    return line.length - border;
  }

  /** Passes the rest of a value that goes on over the end of a part. */
  #skipValue(source: PatternSource, from: number): number {
    const text = source.text(from, Math.min(source.length, from + LONGEST_LINE));
    const stop = text.search(/[ \t\r\n\f\v"'`<>]/);
    const count = stop < 0 ? text.length : stop;
    if (count > 0) this.#add(0, count, 'password', true);
    this.#inValue = stop < 0;
    this.#advance(count);
    return from + count;
  }

  #advance(count: number): void {
    this.#base += count;
    this.#triggered = false;
    this.#seen = 0;
  }

  /** Adds the hits of a line, or of lines that a token may fill; tells whether the last one reaches its end. */
  #report(lines: string): boolean {
    let from = 0;
    while (from < lines.length) {
      if (this.#key === null) {
        const begins = this.#reportOutside(lines, from);
        if (begins === undefined) return this.#hits.at(-1)?.end === this.#base + lines.length;
        from = begins;
      } else from = this.#reportKey(lines, from);
    }
    return false;
  }

  /** Adds hits up to a private key; the index behind its BEGIN line, if there is one. */
  #reportOutside(lines: string, from: number): number | undefined {
    const text = lines.slice(from);
    const key = findKeyBeginning(text);
    for (const hit of hitsIn(this.#inWord && from === 0 ? `x${text}` : text, this.#inWord && from === 0 ? 1 : 0)) {
      if (key !== undefined && hit.start >= key.at) break;
      this.#add(from + hit.start, from + Math.min(hit.end, key?.at ?? hit.end), hit.kind);
    }
    if (key === undefined) return undefined;
    const end = from + key.at + key.words.length + '-----BEGIN -----'.length;
    this.#add(from + key.at, end, 'private-key');
    this.#key = key.words;
    return end;
  }

  #reportKey(lines: string, from: number): number {
    const mark = `-----END ${this.#key ?? ''}-----`;
    const found = lines.indexOf(mark, from);
    const end = found < 0 ? lines.length : found + mark.length;
    this.#add(from, end, 'private-key', true);
    if (found >= 0) this.#key = null;
    return end;
  }

  #add(start: number, end: number, kind: PatternKind, continued = false): void {
    const value = FIRST_PATTERN_VALUE + PATTERN_KINDS.indexOf(kind);
    this.#hits.push({ start: this.#base + start, end: this.#base + end, value, continued });
  }

  /** Finds how far the incomplete line is settled whatever follows. */
  #tellSafe(): void {
    const line = this.#carry;
    if (line === '' || this.#key !== null) this.#settle(0);
    else if (!this.#triggered) this.#settle(line.length - openEnd(line));
    else if (line.length < SHORT_LINE || line.length >= this.#seen * 1.125) {
      this.#seen = line.length;
      const newline = line.indexOf('\n');
      // A token that is wrapped goes on behind the whole line break.
      const text = (newline < 0 ? line : line.slice(0, newline)).replace(/\r$/, '');
      this.#settle(openFrom(text, analyzeLine(text)));
    }
  }

  #settle(count: number): void {
    this.#safe = Math.max(this.#safe, this.#base + count);
  }
}

function isAlphanumeric(character: string): boolean {
  return /^[A-Za-z0-9]$/.test(character);
}

/** Units at the end of a line without a trigger that may begin one. */
function openEnd(line: string): number {
  const tail = line.slice(-REACH);
  const open = tail.length - Math.min(openToken(tail), openKeyBeginning(tail));
  // More would have been a trigger; the tail is cut from what stands before it.
  return open <= TRIGGER_REACH ? open : 0;
}

/** Whether a token fills the last line to a width at which tools break text. */
function needsNextLine(lines: string): boolean {
  const parts = lines.split('\n');
  const last = (parts.at(-1) ?? '').replace(/\r$/, '');
  if (!WRAPPED_AT.has(last.length) || parts.length >= MOST_WRAPPED_LINES) return false;
  const whole = dense(lines);
  return openToken(whole) < whole.length;
}

function dense(lines: string): string {
  return lines.replace(/\r?\n|\r$/g, '');
}

/** Hits in each line, and in all of them joined; `skipped` units at the beginning only say what stands before. */
function hitsIn(lines: string, skipped: number): PatternHit[] {
  const hits: PatternHit[] = [];
  let start = 0;
  for (const line of lines.split('\n')) {
    for (const hit of analyzeLine(line).hits) hits.push({ ...hit, start: hit.start + start, end: hit.end + start });
    start += line.length + 1;
  }
  if (start > lines.length + 1 || lines.includes('\n')) hits.push(...joinedHits(lines));
  return merged(hits).flatMap((hit) =>
    hit.end <= skipped ? [] : [{ ...hit, start: Math.max(0, hit.start - skipped), end: hit.end - skipped }],
  );
}

function joinedHits(lines: string): PatternHit[] {
  const whole = dense(lines);
  /** Index in `lines` of each unit of `whole`. */
  const places: number[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const breaks =
      lines.startsWith('\n', at) || lines.startsWith('\r\n', at) || (at === lines.length - 1 && lines.endsWith('\r'));
    if (!breaks) places.push(at);
  }
  return tokensIn(whole).map((hit) => ({
    ...hit,
    start: places[hit.start] ?? 0,
    end: (places[hit.end - 1] ?? 0) + 1,
  }));
}
