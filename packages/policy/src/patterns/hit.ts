/** What a hit of a pattern is; the placeholder tells it. */
export const PATTERN_KINDS = [
  'aws-key',
  'google-key',
  'github-token',
  'gitlab-token',
  'registry-token',
  'ai-key',
  'slack-token',
  'payment-key',
  'service-key',
  'json-web-token',
  'boxkite-key',
  'private-key',
  'url-password',
  'query-value',
  'authorization',
  'cookie',
  'password',
] as const;

/** Kind of a hit of a pattern. */
export type PatternKind = (typeof PATTERN_KINDS)[number];

/** A stretch of a line that must not leave. */
export interface PatternHit {
  readonly start: number;
  readonly end: number;
  readonly kind: PatternKind;
}

/** What was found in a line, and what may still become a hit once the line goes on. */
export interface LineFindings {
  readonly hits: PatternHit[];
  /** From and to: the parts of addresses between `//` and `/`, in which a label is part of a name. */
  readonly authorities: [start: number, end: number][];
  /** Where the first hit begins that the next characters may make or lengthen; the line's length if there is none. */
  open: number;
}
