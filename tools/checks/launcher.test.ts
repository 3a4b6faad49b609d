import { spawnSync } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');

test('the launcher runs from any directory and through a symbolic link, and adds nothing to the output', () => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'boxkite-launcher-')));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  symlinkSync(join(root, 'boxkite'), join(directory, 'first'));
  symlinkSync('first', join(directory, 'second'));
  const { status, stdout, stderr } = spawnSync('./second', ['--version'], { cwd: directory, encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/^\S*\s?\d+\.\d+\.\d+\n$/);
});

test('a set-up that was done returns at once', () => {
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(join(root, 'tools', 'node', 'setup'), { encoding: 'utf8' });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(performance.now() - started).toBeLessThan(1000);
});
