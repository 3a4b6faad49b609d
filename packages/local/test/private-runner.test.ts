import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PrivateRunner } from '../src/private-runner.ts';
import { RunnerPool } from '../src/runner-pool.ts';

// What a runner does that doesn't come to serve; the real one is in the contract suite.
let base = '';

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-runner-'));
});

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

function program(body: string): string {
  const path = join(base, 'runner');
  writeFileSync(path, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return path;
}

function start(runner: string): PrivateRunner {
  return PrivateRunner.start({ binaries: { runner, agent: '/nonexistent' }, directory: base, root: 'host', blanks: 0 });
}

async function failure(call: Promise<unknown>): Promise<BoxkiteError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof BoxkiteError) return error;
    throw error;
  }
  throw new Error('the call did not fail');
}

test('a runner that says why it can not start fails the first call with its step', async () => {
  const runner = start(program("echo 'boxkite-runner: user_namespace: not allowed (errno 1)' >&2; exit 1"));
  const error = await failure(runner.call((client) => client.probe()));
  expect(error.code).toBe('runner_failed');
  expect(error.message).toContain('user_namespace: not allowed (errno 1)');
  expect(error.details).toEqual({ step: 'user_namespace' });
  expect(error.hint).toContain('doctor');
  expect(runner.ended).toBe(true);
});

test('every call of one that failed fails alike', async () => {
  const runner = start(program('exit 3'));
  const errors = await Promise.all([1, 2, 3].map(() => failure(runner.call((client) => client.list()))));
  expect(errors.map(({ code }) => code)).toEqual(['runner_failed', 'runner_failed', 'runner_failed']);
  expect(errors[0]?.message).toContain('exit status 3');
});

test('a program that is not there is told as such', async () => {
  const error = await failure(start(join(base, 'missing')).call((client) => client.probe()));
  expect(error.code).toBe('runner_failed');
  expect(error.message).toContain('ENOENT');
  expect(existsSync(base)).toBe(false);
});

test('one that was killed is told by its signal', async () => {
  const error = await failure(start(program('kill -9 $$')).call((client) => client.probe()));
  expect(error.message).toContain('SIGKILL');
});

test('its environment has a PATH and nothing of the caller', async () => {
  const runner = start(
    program('echo "boxkite-runner: env: $(env | cut -d= -f1 | sort | tr \'\\n\' ,) (errno 0)" >&2; exit 1'),
  );
  const error = await failure(runner.call((client) => client.probe()));
  const names = /env: ([^ ]*),/.exec(error.message)?.[1]?.split(',') ?? [];
  // The shell that plays the runner adds PWD by itself, and some shells two more.
  expect(names.filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name))).toEqual(['PATH']);
});

test('the end of the owner socket ends it, and close waits for that', async () => {
  const runner = start(program('cat <&3 >/dev/null; exit 0'));
  await runner.close();
  await runner.exited;
  expect(runner.ended).toBe(true);
});

test('one whose connection is gone has ended, though its process is not gone yet, and is replaced', async () => {
  const held = join(base, 'held');
  writeFileSync(held, '');
  const pool = new RunnerPool({
    binaries: {
      runner: program(`mkdir ${base}/first || exit; exec 3>&-; while [ -e ${held} ]; do sleep 0.02; done`),
      agent: '/nonexistent',
    },
    runtimeDirectory: base,
    temporaryDirectory: base,
  });
  const first = pool.get('host');
  let exited = false;
  void first.exited.then(() => {
    exited = true;
  });
  await first.lost;
  expect(first.ended).toBe(true);
  expect(exited).toBe(false);
  const second = pool.get('host');
  expect(second).not.toBe(first);
  await second.exited;
  let closed = false;
  const closing = pool.close().then(() => {
    closed = true;
  });
  await delay(50);
  expect(closed).toBe(false);
  rmSync(held);
  await closing;
  expect(exited).toBe(true);
});
