/**
 * A process of its own that starts runners while it has so many descriptors left as its arguments say. Writes what became
 * of each, as JSON.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { takeDescriptors } from '@boxkite/testing';
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

const outcomes: unknown[] = [];
for (const but of left) {
  const directory = join(base, but);
  mkdirSync(directory);
  const taken = takeDescriptors(Number(but));
  outcomes.push(start(directory));
  await setImmediate();
  taken[Symbol.dispose]();
}
while (readdirSync(base).length > 0) await setImmediate();
process.stdout.write(JSON.stringify(outcomes));
