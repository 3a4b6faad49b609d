/** Reads what `cargo test` prints. */
import type { Named, Outcome } from './outcome.ts';

/**
 * Counts come from the lines `test result:`, names from the lines of single tests. A run that failed before it tested
 * (it did not compile, or a test binary died) is one failure more.
 */
export function readCargoOutput(lane: string, text: string, status: number): Outcome {
  let passed = 0;
  let failedCount = 0;
  const failed: Named[] = [];
  const skipped: Named[] = [];
  for (const line of text.split('\n')) {
    const result = /^test result: \w+\. (\d+) passed; (\d+) failed; \d+ ignored;/.exec(line);
    if (result !== null) {
      passed += Number(result[1]);
      failedCount += Number(result[2]);
    }
    const single = /^test (.+?) \.\.\. (FAILED|ignored)/.exec(line);
    if (single === null) continue;
    const named = { lane, test: `cargo: ${single[1]}` };
    if (single[2] === 'ignored') skipped.push(named);
    else failed.push(named);
  }
  // Output of a test may tear its line apart; the count is what holds.
  while (failed.length < failedCount) failed.push({ lane, test: 'cargo: a test whose name was not printed' });
  if (status !== 0 && failed.length === 0) {
    failed.push({ lane, test: `cargo: ended with status ${status} before its tests did` });
  }
  if (status === 0 && passed === 0) failed.push({ lane, test: 'cargo: no test ran' });
  return { passed, failed, skipped };
}
