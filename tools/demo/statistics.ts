/** Order statistics over samples of one unit; pure. */

/** Thrown when a statistic is asked of no samples. */
export class NoSamplesError extends Error {
  override readonly name = 'NoSamplesError';
}

/**
 * Nearest-rank percentile.
 * @param samples in any order; left as they are
 * @param fraction 0..1, such as 0.95
 * @throws NoSamplesError for an empty list
 */
export function percentile(samples: readonly number[], fraction: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.min(sorted.length - 1, Math.max(0, Math.ceil(fraction * sorted.length) - 1));
  const value = sorted[rank];
  if (value === undefined) throw new NoSamplesError('a percentile needs at least one sample');
  return value;
}

/** Middle value, or the mean of the two middle ones. Throws NoSamplesError for an empty list. */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.floor((sorted.length - 1) / 2)];
  if (upper === undefined || lower === undefined) throw new NoSamplesError('a median needs at least one sample');
  return (lower + upper) / 2;
}
