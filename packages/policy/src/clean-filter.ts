import type { UnitBuffer } from './unit-buffer.ts';

/** Units that are searched for a line break at once: what is found is used up before the search goes on. */
export const LINE_REACH = 128;

/**
 * Finds where text stops being clean: where the automaton has to look. It reads four of about sixteen units
 * (Wu-Manber over groups of four) and every line break; it may stop for nothing, but skips no hit.
 *
 * A hit without a line break in its first `reach` units begins with one of the form's `unbrokenBeginnings`: the steps
 * find it, since its grams are in the table with their distance to the end of the beginning. In any other hit the first
 * run of white space with a line break has one to `reach - 1` units of it before itself; with all white space left
 * out, either the two units before the run and the two behind it are a gram of the form's first `reach + 1` units, or
 * only one unit is before it, and begins a form with the three behind. Steps over a line read nothing of such a run:
 * what they pass is ruled out as the beginning of a hit that goes on over it, too.
 */
export interface CleanFilter {
  /** Units of a beginning that are looked at. */
  readonly reach: number;
  /** Set by `skip`: the automaton must not be left while it is in what begins at this index or before. */
  readonly barrier: number;
  /** Tells that the buffer has changed, before the first `skip` in it. Calls for two buffers must not be interleaved. */
  begin(): void;
  /** The first index from `from` on where a hit may begin that the text does not rule out; never below the last one. */
  skip(buffer: UnitBuffer, from: number): number;
}
