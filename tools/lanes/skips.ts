/** The committed list of tests that may be skipped, and only where a fact of the machine forces it. */
import { existsSync } from 'node:fs';
import { arch, release } from 'node:os';
import { z } from 'zod';
import type { Named } from './outcome.ts';

/** tests/skips.json. */
export const skipList = z.array(
  z.strictObject({
    lane: z.string(),
    test: z.string().describe('As the summary names it: file, colon, full name'),
    reason: z.string().min(20).describe('Why the test can not run where the fact holds'),
    hostFact: z
      .string()
      .regex(/^(absent|present|arch|kernel-below):.+$/)
      .describe('What is looked at on the machine'),
  }),
);

/** The parsed list. */
export type SkipList = z.infer<typeof skipList>;

function kernelBelow(wanted: string, running: string): boolean {
  const [major = 0, minor = 0] = wanted.split('.').map(Number);
  const [runs = 0, runsMinor = 0] = running.split('.').map((part) => Number.parseInt(part, 10));
  return runs < major || (runs === major && runsMinor < minor);
}

/** Whether a fact such as `absent:/dev/kvm`, `arch:arm64` or `kernel-below:6.3` holds on this machine. */
export function holds(fact: string): boolean {
  const colon = fact.indexOf(':');
  const kind = fact.slice(0, colon);
  const value = fact.slice(colon + 1);
  if (kind === 'absent') return !existsSync(value);
  if (kind === 'present') return existsSync(value);
  if (kind === 'arch') return arch() === value;
  if (kind === 'kernel-below') return kernelBelow(value, release());
  throw new RangeError(`unknown host fact ${fact}`);
}

/**
 * What is wrong with the skips of a run: those that the list does not name or whose fact does not hold, and entries of
 * lanes that ran although the test was not skipped. `strict` (CI) allows no skip at all.
 */
export function skipFaults(
  skipped: readonly Named[],
  list: SkipList,
  lanes: ReadonlySet<string>,
  strict: boolean,
): Named[] {
  const same = (a: Named, b: Named) => a.lane === b.lane && a.test === b.test;
  const faults = skipped
    .filter((found) => strict || !list.some((entry) => same(entry, found) && holds(entry.hostFact)))
    .map((found) => ({
      lane: found.lane,
      test: `${found.test} (skipped, which ${strict ? 'CI' : 'tests/skips.json'} does not allow)`,
    }));
  const stale = list
    .filter((entry) => lanes.has(entry.lane) && holds(entry.hostFact) && !skipped.some((found) => same(entry, found)))
    .map((entry) => ({ lane: entry.lane, test: `${entry.test} (on tests/skips.json, but not skipped)` }));
  return [...faults, ...stale];
}
