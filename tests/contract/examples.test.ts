/** Every example runs as it is shown, and says what it is expected to say. */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'examples');

const EXPECTED: Readonly<Record<string, readonly string[]>> = {
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

test.each(Object.entries(EXPECTED))('%s', async (name, lines) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(EXAMPLES, name)], { timeout: 30_000 });
  expect(stdout.trim().split('\n')).toEqual(lines);
  expect(stderr).toBe('');
});
