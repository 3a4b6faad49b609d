/** What a process that decodes an image can't do to the service, and what the service does where it can't start one. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { nativeProgram } from '@boxkite/testing';
import { expect, it } from 'vitest';
import { ImageHelper } from '../src/images/image-helper.ts';

const LONG = { timeout: 60_000 };

it('a service without a descriptor left refuses an image, and goes on', LONG, async () => {
  const script = join(import.meta.dirname, 'support', 'exhausted.ts');
  const command = 'ulimit -n 64; exec "$@"';
  const args = ['-c', command, 'sh', process.execPath, script, nativeProgram('boxkite-runner'), '0', '1', '2', '4'];
  const { stdout } = await promisify(execFile)('/bin/sh', args);
  const refused = ['capacity', { limit: 'open files' }];
  expect(JSON.parse(stdout)).toEqual([refused, refused, refused, refused, 'smaller']);
});

it('one that writes more than any image is ended', LONG, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'boxkite-image-'));
  const written = join(directory, 'written');
  const program = join(directory, 'boxkite-runner');
  writeFileSync(program, `#!/bin/sh\nhead -c 67108864 /dev/zero && : >'${written}'\n`, { mode: 0o755 });
  const images = new ImageHelper(program);
  const job = { codec: 'png', maxDimension: 256, jpegQuality: 85, webpQuality: 80, pngCompression: 6 } as const;
  expect(await images.optimise(job, Buffer.from('an image'), new AbortController().signal)).toBeNull();
  expect(images.running).toEqual([]);
  expect(existsSync(written)).toBe(false);
  rmSync(directory, { recursive: true });
});
