/** How a measured side is set against its baseline, and what counts as a broken promise; pure. */
import { median } from '../../tools/demo/statistics.ts';

export type Unit = 'ms' | 's' | 'MB/s' | 'per s' | 'MB' | 'KB' | 'times';

/** One number of a row, and what is promised of it. */
export interface Metric {
  /** Such as `p50`. */
  readonly name: string;
  readonly unit: Unit;
  /** `lower`: the ratio may be at most the promise; `higher`: at least. */
  readonly better: 'lower' | 'higher';
  readonly promise: number;
  readonly stretch?: number | undefined;
}

/** One round: what the measured side did, and what the baseline did in its two halves. */
export interface Round {
  readonly subject: number;
  readonly baseline: readonly [number, number];
}

export type Verdict = 'stretch' | 'kept' | 'within noise' | 'broken';

/** A metric with its numbers. */
export interface Comparison {
  readonly metric: Metric;
  /** Medians over the rounds. */
  readonly subject: number;
  /** `null` where the promise is about an amount, not a ratio. */
  readonly baseline: number | null;
  /** What the promise is held against: the median of the rounds' ratios, or the amount itself. */
  readonly value: number;
  /** Spread of the baseline against itself: how far its two halves differ within a round, as a fraction; the median. */
  readonly noise: number;
  /** The lowest and highest ratio of a round. */
  readonly range: readonly [number, number];
  readonly verdict: Verdict;
  readonly rounds: readonly Round[];
}

/** Compares the rounds of a ratio. At least one round. */
export function compare(metric: Metric, rounds: readonly Round[]): Comparison {
  const ratios = rounds.map((round) => round.subject / mean(round.baseline));
  const value = median(ratios);
  const noise = median(
    rounds.map(({ baseline: [first, second] }) => Math.abs(first - second) / Math.min(first, second)),
  );
  return {
    metric,
    subject: median(rounds.map((round) => round.subject)),
    baseline: median(rounds.map((round) => mean(round.baseline))),
    value,
    noise,
    range: [Math.min(...ratios), Math.max(...ratios)],
    verdict: judge(metric, value, noise),
    rounds,
  };
}

/** Holds an amount, the largest of several, against its promise. */
export function amount(metric: Metric, samples: readonly number[]): Comparison {
  const value = metric.better === 'lower' ? Math.max(...samples) : Math.min(...samples);
  return {
    metric,
    subject: value,
    baseline: null,
    value,
    noise: 0,
    range: [Math.min(...samples), Math.max(...samples)],
    verdict: judge(metric, value, 0),
    rounds: [],
  };
}

/** A promise is broken only beyond the noise. */
export function judge(metric: Metric, value: number, noise: number): Verdict {
  const reaches = (limit: number, slack: number): boolean =>
    metric.better === 'lower' ? value <= limit * (1 + slack) : value >= limit / (1 + slack);
  if (metric.stretch !== undefined && reaches(metric.stretch, 0)) return 'stretch';
  if (reaches(metric.promise, 0)) return 'kept';
  return reaches(metric.promise, noise) ? 'within noise' : 'broken';
}

function mean([first, second]: readonly [number, number]): number {
  return (first + second) / 2;
}
