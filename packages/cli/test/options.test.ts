import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { OptionValues } from '../src/option-values.ts';
import { parseOptions } from '../src/options.ts';
import type { RunRequest } from '../src/run-options.ts';
import { runOptions, runRequest } from '../src/run-options.ts';
import { VERSION } from '../src/version.ts';
import { call, services } from './support/fake-io.ts';

function parseRun(args: readonly string[]): RunRequest {
  const parsed = parseOptions(runOptions, args, 'run');
  return runRequest(new OptionValues(runOptions, parsed), parsed.rest);
}

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
    private: true,
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
  ['--timeuot', '--timeout'],
  ['--memroy', '--memory'],
  ['--zzz', undefined],
])('a slip such as %s is answered with a guess: %s', (given, guess) => {
  const hint = guess === undefined ? 'See `boxkite run --help`.' : `Did you mean ${guess}?`;
  expect(() => parseRun([given, '5', '--', 'x'])).toThrow(expect.objectContaining({ hint }));
});

test('the help names every option and says that there is no network', async () => {
  const { out } = await call(['run', '--help'], services(null));
  for (const name of Object.keys(runOptions)) expect(out).toContain(`--${name}`);
  expect(out).toContain('NO NETWORK');
});

test.each([
  ['debian', false],
  ['/srv/debian', true],
  ['./debian', true],
  ['..', true],
])('a root file system %s is for a private runner: %s', (rootfs, expected) => {
  expect(parseRun(['--rootfs', rootfs, '--', 'x']).private).toBe(expected);
});

const table = {
  input: { value: null, short: 'i', help: '' },
  tty: { value: null, short: 't', help: '' },
  signal: { value: 'NAME', short: 's', help: '' },
  env: { value: 'PAIR', help: '', repeatable: true },
} as const;

test.each([
  [['-it', 'ID', 'ls', '-l'], 1, { input: ['true'], tty: ['true'] }, ['ID'], ['ls', '-l']],
  [['ID', '-i', '--', 'ls'], 1, { input: ['true'] }, ['ID'], ['ls']],
  [['-its', 'TERM', 'ID'], 2, { input: ['true'], tty: ['true'], signal: ['TERM'] }, ['ID'], []],
  [['-sTERM', 'a', 'b', '-i'], 9, { signal: ['TERM'], input: ['true'] }, ['a', 'b'], []],
  [['a', '-', '--', '-i'], 9, {}, ['a', '-'], ['-i']],
  [['a', '--env=A=1', 'b', '--env', 'B=2'], 9, { env: ['A=1', 'B=2'] }, ['a', 'b'], []],
] as const)('%j with at most %i words', (args, most, values, words, rest) => {
  const parsed = parseOptions(table, args, 'x', most);
  expect(Object.fromEntries(parsed.values)).toEqual(values);
  expect(parsed.words).toEqual(words);
  expect(parsed.rest).toEqual(rest);
});

test.each([
  [['-ix'], 'unknown option -ix'],
  [['-ii'], '--input is given twice'],
  [['-s'], '--signal needs a value'],
])('%j is refused: %s', (args, text) => {
  expect(() => parseOptions(table, args, 'x', 1)).toThrow(text);
});

test('the version is the manifest’s', () => {
  const manifest: unknown = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'package.json'), 'utf8'));
  expect(manifest).toMatchObject({ version: VERSION });
});
