import { execFile } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('a program without a descriptor left is told so, goes on, and leaves no directory of a runner', async () => {
  const base = mkdtempSync(join(tmpdir(), 'boxkite-runner-'));
  const script = join(import.meta.dirname, 'support', 'exhausted.ts');
  const args = ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, script, base, '0', '1', '3', '30'];
  const { stdout } = await promisify(execFile)('/bin/sh', args);
  const refused = ['capacity', { limit: 'open files' }];
  expect(JSON.parse(stdout)).toEqual([refused, refused, refused, 'started']);
  rmdirSync(base);
});
