import type { CleanFilter } from './clean-filter.ts';
import { BLANK_CLASS, CLASS_OF } from './fold.ts';
import { type KnownAutomaton, nextState } from './known-automaton.ts';
import { type Comparison, comparePattern, type KnownPattern } from './known-pattern.ts';
import { UnitBuffer } from './unit-buffer.ts';

/** What the scanner needs to know; shared by all streams that hide the same values. */
export interface ScannerTables {
  readonly automaton: KnownAutomaton;
  readonly filter: CleanFilter | undefined;
  /** Whether the units are UTF-16. */
  readonly wide: boolean;
  /** Longest run of text, line breaks included, that is taken for one form. */
  readonly maxSpan: number;
}

/** A form in the text: from the position `start` up to `end`, counted from the beginning of the stream. */
export interface Hit {
  readonly start: number;
  end: number;
  readonly value: number;
}

/** Steps of exact comparison a unit of text may cost on average, and how many are free. */
const STEPS_PER_UNIT = 2;
const FREE_STEPS = 1 << 18;
/** Depth of a state up to which it is cheaper to go back and skip than to go on step by step. */
const SHALLOW = 2;

/**
 * Finds the forms in a stream of code units. Clean text is skipped by the filter; where a form may begin, and around
 * line breaks, the automaton takes over until it has lost the track. Its state is all that must be remembered, so a cut
 * between two pieces makes no difference, and every unit is read a bounded number of times.
 *
 * A candidate is compared exactly. Text made for it (a value that repeats itself, met over and over in the wrong case)
 * could make these comparisons costly; once they exceed their budget, candidates are hidden without being compared.
 */
export class KnownScanner {
  readonly #tables: ScannerTables;
  readonly #automaton: KnownAutomaton;
  readonly #ring: Float64Array;
  readonly #ringMask: number;
  readonly #comparison: Comparison = { equal: false, steps: 0 };
  readonly #buffer: UnitBuffer;
  /** Index of the next unit to read. */
  #at = 0;
  #stepping = true;
  #state = 0;
  /** Units given to the automaton since it began; the ring has the positions of the last ones. */
  #count = 0;
  /** Position of which the automaton has to lose the track before it is left, or -1. */
  #barrier = -1;
  /** Units that the automaton reads before the filter is asked again. */
  #pause = 0;
  #steps = 0;
  #hits: Hit[] = [];

  /** `steps` of a scanner whose text this one goes on with. */
  constructor(tables: ScannerTables, steps = 0) {
    this.#tables = tables;
    this.#steps = steps;
    this.#buffer = new UnitBuffer(tables.wide);
    this.#automaton = tables.automaton;
    let size = 8;
    while (size <= tables.automaton.maxDepth) size *= 2;
    this.#ring = new Float64Array(size);
    this.#ringMask = size - 1;
  }

  /** Position up to which nothing can become part of a hit any more that is not in `takeHits` already. */
  get safe(): number {
    if (this.#state === 0) return this.#buffer.base + this.#at;
    return this.#startOf(this.#automaton.depth[this.#state] as number, this.#count);
  }

  /** Steps of comparison less those that the text up to `safe` allows. */
  get steps(): number {
    return this.#steps - STEPS_PER_UNIT * this.safe;
  }

  /** Position behind the last unit. */
  get end(): number {
    return this.#buffer.base + this.#buffer.length;
  }

  /** Room for `count` more units, in arrays and from an index that the caller writes to; what is safe is dropped. */
  reserve(count: number): { buffer: UnitBuffer; at: number } {
    const drop = this.safe - this.#buffer.base;
    this.#at -= drop;
    return { buffer: this.#buffer, at: this.#buffer.reserve(drop, count) };
  }

  /** Reads all units written since the last call. */
  scan(): void {
    const { filter } = this.#tables;
    const buffer = this.#buffer;
    filter?.begin();
    while (this.#at < buffer.length) {
      if (!this.#stepping && filter !== undefined) {
        const from = this.#at;
        this.#at = filter.skip(buffer, from);
        // It looks at a whole run of white space at the end: where it skips nothing it is asked ever more seldom.
        this.#pause = this.#at > from ? 0 : 2 * this.#pause + 1;
        this.#barrier = buffer.base + Math.max(filter.barrier, this.#at + this.#pause);
        this.#stepping = true;
        this.#count = 0;
      }
      this.#step();
    }
  }

  /** Removes and returns the hits that begin before `before`, by start and by end. A hit may overlap the next one. */
  takeHits(before: number): Hit[] {
    const hits = this.#hits;
    if (hits.length === 0) return hits;
    let taken = 0;
    while (taken < hits.length && (hits[taken] as Hit).start < before) taken += 1;
    this.#hits = hits.slice(taken);
    return hits.slice(0, taken);
  }

  /**
   * Runs the automaton until all is read or until skipping is worth while again. Works on local copies of the state:
   * this is where the time goes in text that has something to look at.
   */
  #step(): void {
    const automaton = this.#automaton;
    const { ending, depth } = automaton;
    const { units, base, length } = this.#buffer;
    const leaveDepth = this.#tables.filter === undefined ? -1 : SHALLOW;
    let at = this.#at;
    let state = this.#state;
    let count = this.#count;
    while (at < length) {
      const symbol = CLASS_OF[units[at] as number] as number;
      at += 1;
      if (symbol <= BLANK_CLASS) {
        if (state !== 0) state = this.#boundSpan(state, count, base + at);
      } else {
        this.#ring[count & this.#ringMask] = base + at - 1;
        count += 1;
        state = nextState(automaton, state, symbol);
        if (ending[state] !== 0) this.#record(state, count, at);
      }
      const height = depth[state] as number;
      if (height > leaveDepth) continue;
      const start = height === 0 ? at : this.#startOf(height, count) - base;
      if (this.#canSkipFrom(start)) {
        this.#stepping = false;
        at = start;
        state = 0;
        break;
      }
    }
    this.#at = at;
    this.#state = state;
    this.#count = count;
  }

  /** Whether the filter can judge what begins at `index`, the start of the state, and going there is progress. */
  #canSkipFrom(index: number): boolean {
    const { filter } = this.#tables;
    const { base, length } = this.#buffer;
    return filter !== undefined && base + index > this.#barrier && index + filter.reach <= length;
  }

  /** Gives up beginnings that line breaks and white space have stretched too far; only white space can do that. */
  #boundSpan(state: number, count: number, here: number): number {
    const { depth, fail } = this.#automaton;
    let kept = state;
    while (kept !== 0 && here - this.#startOf(depth[kept] as number, count) > this.#tables.maxSpan) {
      kept = fail[kept] as number;
    }
    return kept;
  }

  #startOf(depth: number, count: number): number {
    return this.#ring[(count - depth) & this.#ringMask] as number;
  }

  /** Notes the longest form that ends here; shorter ones lie inside it. */
  #record(state: number, count: number, at: number): void {
    const { ending, depth, fail, patternAt, nextPattern, patterns } = this.#automaton;
    let node = ending[state] as number;
    while (node !== 0) {
      const start = this.#startOf(depth[node] as number, count);
      for (let next = patternAt[node] as number; next !== 0; next = nextPattern[next - 1] as number) {
        const pattern = patterns[next - 1];
        if (pattern === undefined || !this.#agrees(pattern, start, at)) continue;
        this.#add(start, this.#buffer.base + at, pattern.value);
        return;
      }
      node = ending[fail[node] as number] as number;
    }
  }

  #agrees(pattern: KnownPattern, start: number, at: number): boolean {
    if (this.#steps > STEPS_PER_UNIT * (this.#buffer.base + at) + FREE_STEPS) return true;
    comparePattern(pattern, this.#buffer.units, start - this.#buffer.base, at, this.#comparison);
    this.#steps += this.#comparison.steps;
    return this.#comparison.equal;
  }

  /** Keeps starts and ends of `#hits` rising: a hit replaces those inside it and prolongs one of the same value. */
  #add(start: number, end: number, value: number): void {
    for (let last = this.#hits.at(-1); last !== undefined; last = this.#hits.at(-1)) {
      if (last.start < start) {
        if (last.value !== value || last.end <= start) break;
        last.end = end;
        return;
      }
      this.#hits.pop();
    }
    this.#hits.push({ start, end, value });
  }
}
