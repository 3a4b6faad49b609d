/** What one run of tests brought, whatever language it was in. */

/** One test that did not pass, or the run itself. `lane` is where it ran. */
export interface Named {
  readonly lane: string;
  readonly test: string;
  /** What it said, a few lines. */
  readonly why?: string;
}

/** A sum over tests. */
export interface Outcome {
  readonly passed: number;
  readonly failed: readonly Named[];
  readonly skipped: readonly Named[];
}

/** One outcome out of many. */
export function sum(outcomes: readonly Outcome[]): Outcome {
  return {
    passed: outcomes.reduce((total, outcome) => total + outcome.passed, 0),
    failed: outcomes.flatMap((outcome) => outcome.failed),
    skipped: outcomes.flatMap((outcome) => outcome.skipped),
  };
}
