import { findTokens, openToken } from './formats.ts';
import type { LineFindings, PatternHit } from './hit.ts';
import { findLabelled } from './labels.ts';
import { triggersIn } from './triggers.ts';

/** The beginning of a private key in PEM. */
const BEGIN = /-----BEGIN ([A-Z0-9 ]{0,48}PRIVATE KEY(?: BLOCK)?)-----/;
/** What may become such a beginning. */
const BEGIN_PART = /-{1,5}$|-----(?:B|BE|BEG|BEGI|BEGIN|BEGIN [A-Z0-9 ]{0,64}-{0,4})$/;

/** Units of a BEGIN line. */
const LONGEST_BEGIN = 96;

/** A private key begins in a line; its words say how it ends. */
export interface KeyBeginning {
  readonly at: number;
  readonly words: string;
}

/** Where the first private key of a line begins. */
export function findKeyBeginning(line: string): KeyBeginning | undefined {
  if (!line.includes('-----BEGIN ')) return undefined;
  const found = BEGIN.exec(line);
  return found === null ? undefined : { at: found.index, words: found[1] ?? '' };
}

/** The hits of a line, in order and apart from each other, and what is still open at its end. */
export function analyzeLine(line: string): LineFindings {
  const findings: LineFindings = { hits: [], authorities: [], open: line.length };
  const { topics, tokens } = triggersIn(line);
  if (tokens.length > 0) findTokens(line, tokens, findings);
  findLabelled(line, topics, findings);
  return { ...findings, hits: merged(findings.hits) };
}

/** The tokens alone, of lines that were joined. */
export function tokensIn(line: string): PatternHit[] {
  const findings: LineFindings = { hits: [], authorities: [], open: line.length };
  findTokens(line, triggersIn(line).tokens, findings);
  return findings.hits;
}

/** The first index that may turn out to be hidden once the line goes on. */
export function openFrom(line: string, { hits, open }: LineFindings): number {
  const key = findKeyBeginning(line)?.at ?? openKeyBeginning(line);
  return Math.min(open, openToken(line), hits[0]?.start ?? line.length, key);
}

/** Where the beginning of a private key is incomplete; the line's length if there is none. */
export function openKeyBeginning(line: string): number {
  const tail = Math.max(0, line.length - LONGEST_BEGIN);
  return tail + (BEGIN_PART.exec(line.slice(tail))?.index ?? line.length - tail);
}

/** Overlapping hits become one, of the kind of the first. */
export function merged(hits: readonly PatternHit[]): PatternHit[] {
  if (hits.length < 2) return [...hits];
  const out: PatternHit[] = [];
  for (const hit of hits.toSorted((one, two) => one.start - two.start || two.end - one.end)) {
    const last = out.at(-1);
    if (last === undefined || hit.start >= last.end) out.push(hit);
    else if (hit.end > last.end) out[out.length - 1] = { ...last, end: hit.end };
  }
  return out;
}
