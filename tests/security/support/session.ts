/** A session over a sandbox of a test, for what the sidecar runs in it. */
import { join } from 'node:path';
import { Session } from '@boxkite/sidecar/app';
import type { TestRunner, TestSandbox } from '@boxkite/testing';

/** Whoever asks closes it; it leaves nothing but records in the runner's place. */
export function sessionOf(runner: TestRunner, { number, effective }: TestSandbox): Promise<Session> {
  return Session.open({
    id: String(number),
    sandbox: number,
    effective,
    runner: { call: (run) => run(runner.client), ended: false, lost: runner.client.lost },
    directory: join(runner.place.base, `records-${number}`),
    state: { get: () => null, put: () => Promise.resolve() },
  });
}
