/** Every example runs as it is shown, and says what it is expected to say. */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startDaemon, type TestDaemon } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'examples');

const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  'background.ts': ['step 1', 'step 2', 'step 3', 'it ended with exit status 0', 'listed as: example'],
  'hello.ts': ['exit status 0, it says: done', 'it wrote: hello world', 'network: none, uid: 1001'],
  'stream.ts': [
    'step 1',
    'step 2',
    'step 3',
    'ended as exited 0',
    'the slow one: timed_out',
    'the cancelled one: aborted, and nothing of it runs',
  ],
};

test('each example is expected to say something', () => {
  expect(
    readdirSync(EXAMPLES)
      .filter((name) => name.endsWith('.ts'))
      .sort(),
  ).toEqual(Object.keys(EXPECTED).sort());
});

/** Those that need a daemon; all others run with a private runner too. */
const LASTING = ['background.ts'];

let daemon: TestDaemon;

beforeAll(async () => {
  daemon = await startDaemon();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe.each(['private', 'daemon'] as const)('%s', (way) => {
  const names = Object.keys(EXPECTED).filter((name) => way === 'daemon' || !LASTING.includes(name));

  test.each(names)('%s', async (name) => {
    const { BOXKITE_URL: _url, ...rest } = process.env;
    const env = way === 'daemon' ? { ...rest, BOXKITE_URL: daemon.url } : rest;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(EXAMPLES, name)], {
      timeout: 30_000,
      env,
    });
    expect(stdout.trim().split('\n')).toEqual(EXPECTED[name]);
    expect(stderr).toBe('');
  });
});
