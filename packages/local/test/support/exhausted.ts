/**
 * A process of its own that starts runners while it has so many descriptors left as its arguments say. Writes what became
 * of each, as JSON.
 */
import { closeSync, mkdirSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { PrivateRunner } from '../../src/private-runner.ts';

const [, , base = '', ...left] = process.argv;

function start(directory: string): unknown {
  const binaries = { runner: '/bin/true', agent: '/nonexistent' };
  try {
    PrivateRunner.start({ binaries, directory, root: 'host', blanks: 0 });
    return 'started';
  } catch (error) {
    return error instanceof BoxkiteError ? [error.code, error.details] : String(error);
  }
}

/** Takes all descriptors but so many. */
function exhaust(but: number): number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    for (const fd of taken.splice(0, but)) closeSync(fd);
    return taken;
  }
}

const outcomes: unknown[] = [];
for (const but of left) {
  const directory = join(base, but);
  mkdirSync(directory);
  const taken = exhaust(Number(but));
  outcomes.push(start(directory));
  await setImmediate();
  for (const fd of taken) closeSync(fd);
}
while (readdirSync(base).length > 0) await setImmediate();
process.stdout.write(JSON.stringify(outcomes));
