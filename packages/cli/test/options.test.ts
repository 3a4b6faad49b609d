import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { parseRun, runHelp, runOptions } from '../src/run-options.ts';
import { VERSION } from '../src/version.ts';

test('everything of a run', () => {
  const words =
    '--rootfs /r --copy=c --timeout 1.5 --memory 64 --pids 10 --cpus 0.5 --workspace 8 --env A=1 --env B=x=y --cwd w --json -- ls -l';
  expect(parseRun(words.split(' '))).toEqual({
    spec: { rootfs: '/r', copy: 'c', memory_mb: 64, pids: 10, cpus: 0.5, workspace_mb: 8 },
    argv: ['ls', '-l'],
    cwd: 'w',
    env: { A: '1', B: 'x=y' },
    timeout_ms: 1500,
    json: true,
  });
});

test('the command begins at the first plain word, and its own options are left to it', () => {
  expect(parseRun(['--pids', '5', 'ls', '--json', '--', '-x'])).toMatchObject({
    argv: ['ls', '--json', '--', '-x'],
    json: false,
  });
  expect(parseRun(['--', '--json'])).toMatchObject({ argv: ['--json'], json: false });
});

test.each([
  [['--unknown', '--', 'x'], 'unknown option --unknown'],
  [['-m', '5', '--', 'x'], 'unknown option -m'],
  [['--__proto__', 'x'], 'unknown option --__proto__'],
  [['--memory'], '--memory needs a value'],
  [['--memory', '--', 'x'], '--memory is to be an unsigned decimal number'],
  [['--memory', '0x10', '--', 'x'], '--memory is to be an unsigned decimal number'],
  [['--memory', '1.5', '--', 'x'], '--memory is to be a whole number'],
  [['--memory=', '--', 'x'], '--memory is empty'],
  [['--memory', '1', '--memory', '2', '--', 'x'], '--memory is given twice'],
  [['--json=yes', '--', 'x'], '--json takes no value'],
  [['--timeout', '0', '--', 'x'], '--timeout is to be above 0'],
  [['--timeout', '-1', '--', 'x'], '--timeout is to be an unsigned decimal number'],
  [['--env', 'HOME', '--', 'x'], '--env HOME is not NAME=VALUE'],
  [['--env', '=x', '--', 'x'], 'is not NAME=VALUE'],
  [['--env', '1A=x', '--', 'x'], 'is not NAME=VALUE'],
  [[], 'no command is given'],
  [['--'], 'no command is given'],
])('%j is refused: %s', (args, text) => {
  const attempt = () => parseRun(args);
  expect(attempt).toThrow(BoxkiteError);
  expect(attempt).toThrow(text);
});

test.each([
  ['--memori', '--memory'],
  ['--mem', '--memory'],
  ['--pid', '--pids'],
  ['--roots', '--rootfs'],
  ['--timeuot', undefined],
])('a slip such as %s is answered with a guess: %s', (given, guess) => {
  const hint = guess === undefined ? 'See `boxkite run --help`.' : `Did you mean ${guess}?`;
  expect(() => parseRun([given, '5', '--', 'x'])).toThrow(expect.objectContaining({ hint }));
});

test('the help names every option and says that there is no network', () => {
  expect(parseRun(['--help'])).toBeNull();
  expect(parseRun(['-h'])).toBeNull();
  for (const name of Object.keys(runOptions)) expect(runHelp()).toContain(`--${name}`);
  expect(runHelp()).toContain('NO NETWORK');
});

test('the version is the manifest’s', () => {
  const manifest: unknown = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'package.json'), 'utf8'));
  expect(manifest).toMatchObject({ version: VERSION });
});
