/** The second half of the demo: three programs that misbehave, stopped; and the twin in which they are not. */
import { randomUUID } from 'node:crypto';
import type { Attempt, Offender, OffenderProvider, Outcome } from './offender.ts';
import { runOffender } from './offender.ts';
import { openTwin } from './providers.ts';
import type { Screen } from './screen.ts';

/** Runs and shows one offender, in the product and in its twin. Resolves to whether both went as they must. */
export async function showOffender(
  offender: Offender,
  provider: OffenderProvider,
  screen: Screen,
  signal: AbortSignal,
): Promise<boolean> {
  screen.heading(`A program that ${offender.title}`);
  const outcome = await runOffender(provider, offender, `boxkite-offender-${randomUUID()}`, signal);
  const stopped = outcome.attempts.every((attempt) => !attempt.succeeded) && outcome.leftAlive === 0;
  showAttempts(outcome.attempts, false, screen);
  screen.wrapped(`  in force: ${offender.wall(outcome.effective)}`, 4);
  screen.line(
    `  ${verdict(stopped, stopped ? 'stopped' : 'NOT STOPPED', screen)}; alive after it: ${outcome.leftAlive}`,
  );

  const twin = await runInTwin(offender, signal);
  const succeeded =
    twin.attempts.every((attempt) => attempt.succeeded || attempt.alsoStoppedBy !== undefined) && twin.leftAlive === 0;
  screen.wrapped(`  The same program in the weakened twin (without ${offender.weakened.join(', ')}):`, 4);
  showAttempts(twin.attempts, true, screen);
  const words = succeeded
    ? 'succeeds there, so the wall is what stopped it'
    : 'DOES NOT SUCCEED there: this proves nothing';
  screen.line(`  ${verdict(succeeded, words, screen)}; alive after it: ${twin.leftAlive}`);
  return stopped && succeeded;
}

async function runInTwin(offender: Offender, signal: AbortSignal): Promise<Outcome> {
  const provider = await openTwin(offender.weakened);
  try {
    return await runOffender(provider, offender, `boxkite-offender-${randomUUID()}`, signal);
  } finally {
    await provider.close();
  }
}

function showAttempts(attempts: readonly Attempt[], wanted: boolean, screen: Screen): void {
  for (const { what, observed, succeeded, alsoStoppedBy } of attempts) {
    const excused = wanted && !succeeded && alsoStoppedBy !== undefined;
    const reason = excused ? `; here by ${alsoStoppedBy}` : '';
    screen.wrapped(`  ${verdict(succeeded === wanted || excused, '-', screen)} ${what}: ${observed}${reason}`, 6);
  }
}

function verdict(good: boolean, text: string, screen: Screen): string {
  return screen.paint(good ? 'green' : 'red', text);
}
