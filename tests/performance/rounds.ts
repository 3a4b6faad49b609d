/** The two ways to interleave a measured side with its baseline. */
import { percentile } from '../../tools/demo/statistics.ts';
import type { Round } from './comparison.ts';

/** One call of a side. */
export type Act = () => Promise<void>;

/** Times of one round, in ms. */
export interface Samples {
  readonly subject: readonly number[];
  /** Every other sample of the baseline, so that it can be set against itself. */
  readonly baseline: readonly [readonly number[], readonly number[]];
}

/**
 * Call by call: the sides take turns within a round, and take turns in going first. A few calls before the first round
 * are not counted.
 */
export async function callByCall(
  rounds: number,
  callsPerRound: number,
  subject: Act,
  baseline: Act,
): Promise<readonly Samples[]> {
  const calls = Math.max(2, callsPerRound);
  for (let warm = 0; warm < Math.min(10, calls); warm += 1) {
    await subject();
    await baseline();
  }
  const all: Samples[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const samples = { subject: [] as number[], baseline: [[] as number[], [] as number[]] as const };
    for (let call = 0; call < calls; call += 1) {
      // The order changes every two calls, so that both halves of the baseline see both orders.
      const subjectFirst = (call >> 1) % 2 === 0;
      if (subjectFirst) samples.subject.push(await timed(subject));
      samples.baseline[call % 2 === 0 ? 0 : 1].push(await timed(baseline));
      if (!subjectFirst) samples.subject.push(await timed(subject));
    }
    all.push(samples);
  }
  return all;
}

/** The same percentile of each round. */
export function atPercentile(all: readonly Samples[], fraction: number): readonly Round[] {
  return all.map(({ subject, baseline: [first, second] }) => ({
    subject: percentile(subject, fraction),
    baseline: [percentile(first, fraction), percentile(second, fraction)],
  }));
}

/** All samples as one round, for a maximum over the whole run. */
export function pooled(all: readonly Samples[]): Samples {
  return {
    subject: all.flatMap((samples) => samples.subject),
    baseline: [all.flatMap((samples) => samples.baseline[0]), all.flatMap((samples) => samples.baseline[1])],
  };
}

/** Big pieces of work: baseline, subject, baseline in each round. Each side gives its own number. */
export async function sandwich(
  rounds: number,
  subject: () => Promise<number>,
  baseline: () => Promise<number>,
): Promise<readonly Round[]> {
  const all: Round[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const before = await baseline();
    const value = await subject();
    all.push({ subject: value, baseline: [before, await baseline()] });
  }
  return all;
}

/** ms that a call takes. */
export async function timed(act: Act): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}
