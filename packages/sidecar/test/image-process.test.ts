/** What a process that decodes an image can't do to the service, and what the service does where it can't start one. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { nativeProgram } from '@boxkite/testing';
import { expect, it } from 'vitest';

const LONG = { timeout: 60_000 };

it('a service without a descriptor left refuses an image, and goes on', LONG, async () => {
  const script = join(import.meta.dirname, 'support', 'exhausted.ts');
  const command = 'ulimit -n 64; exec "$@"';
  const args = ['-c', command, 'sh', process.execPath, script, nativeProgram('boxkite-runner'), '0', '1', '2', '4'];
  const { stdout } = await promisify(execFile)('/bin/sh', args);
  const refused = ['capacity', { limit: 'open files' }];
  expect(JSON.parse(stdout)).toEqual([refused, refused, refused, refused, 'smaller']);
});
