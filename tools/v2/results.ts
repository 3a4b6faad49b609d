/** What the guest left, made whole: a lane without results is one that failed. */
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where the checkout lies in the guest. */
const GUEST_ROOT = '/opt/boxkite';

/** The status of `timeout` for what took too long, and one for anything else. */
const LATE = 124;
const BROKEN = 1;

/**
 * Unpacks the archive on the disk `image` into `directory`, and answers which of `lanes` left no result of its own. For
 * those it writes one that the summary counts as a failure.
 */
export function takeResults(image: string, directory: string, lanes: readonly string[], late: boolean): string[] {
  let whole = true;
  try {
    execFileSync('tar', ['-C', directory, '--no-same-owner', '-xf', image], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch {
    // The guest ended while it wrote; what came out whole still counts.
    whole = false;
  }
  const missing = lanes.filter((lane) => !whole || !existsSync(join(directory, `${lane}.lane.json`)));
  for (const lane of missing) {
    const record = { lane, root: GUEST_ROOT, vitest: late ? LATE : BROKEN };
    writeFileSync(join(directory, `${lane}.lane.json`), `${JSON.stringify(record)}\n`);
  }
  return missing;
}
