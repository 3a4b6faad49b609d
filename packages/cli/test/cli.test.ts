import { PassThrough } from 'node:stream';
import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { runCli } from '../src/cli.ts';
import { exitStatusOf } from '../src/exit-status.ts';
import type { CommandIo } from '../src/io.ts';
import { describeError } from '../src/report-error.ts';

/** A process whose output is kept as text. */
function fakeIo(): { readonly io: CommandIo; readonly out: () => string; readonly err: () => string } {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const text = (stream: PassThrough): string => String(stream.read() ?? '');
  const io: CommandIo = {
    env: {},
    stdin: () => new PassThrough(),
    stdout: () => stdout,
    stderr: () => stderr,
    terminal: false,
    stdinEmpty: true,
    terminalSize: () => ({ columns: 80, rows: 24 }),
    setRawMode: () => undefined,
    onSignal: () => () => undefined,
  };
  return { io, out: () => text(stdout), err: () => text(stderr) };
}

test.each([
  [[]],
  [['nonsense']],
  [['--nonsense']],
  [['run']],
  [['run', '--nonsense', '--', 'true']],
  [['run', '--memory', 'much', '--', 'true']],
  [['run', '--rootfs', '/nonexistent', '--', 'true']],
  [['run', '--copy', '/nonexistent', '--', 'true']],
  [['run', '--memory', '0', '--', 'true']],
  [['doctor']],
  [['doctor', '--nonsense']],
  [['doctor', '--machine', 'word']],
])('%j: one line of what is wrong, one of what to do, exit status 2', async (args) => {
  const { io, out, err } = fakeIo();
  expect(await runCli(args, io)).toBe(2);
  expect(err()).toMatch(/^boxkite: .+ \(invalid_request\)\nhint: .+\n$/);
  expect(out()).toBe('');
});

test('with --json the error is the one object on standard output', async () => {
  const { io, out, err } = fakeIo();
  expect(await runCli(['run', '--json', '--rootfs', '/nonexistent', '--', 'true'], io)).toBe(2);
  expect(JSON.parse(out())).toMatchObject({ error: { code: 'invalid_request', details: { field: 'rootfs' } } });
  expect(err()).toContain('/nonexistent is not there');
});

test.each([[['--help']], [['-h']], [['run', '--help']], [['doctor', '--help']]])('%j prints help', async (args) => {
  const { io, out, err } = fakeIo();
  expect(await runCli(args, io)).toBe(0);
  expect(out()).toMatch(/^Usage: boxkite/);
  expect(err()).toBe('');
});

test('--version prints the version alone', async () => {
  const { io, out } = fakeIo();
  expect(await runCli(['--version'], io)).toBe(0);
  expect(out()).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('exit statuses of errors', () => {
  expect(exitStatusOf(new BoxkiteError('command_not_found', ''))).toBe(127);
  expect(exitStatusOf(new BoxkiteError('not_executable', ''))).toBe(126);
  expect(exitStatusOf(new BoxkiteError('isolation_unavailable', ''))).toBe(2);
  expect(exitStatusOf(new BoxkiteError('runner_lost', ''))).toBe(1);
  expect(exitStatusOf(new TypeError('slip'))).toBe(1);
});

test('a name from outside can not steer the terminal', () => {
  expect(describeError(new BoxkiteError('not_found', 'no \u001b[2J\nfile'))).toBe(
    'boxkite: no \\x1b[2J\\x0afile (not_found)\nhint: Check the id; it may have been destroyed or its record collected.\n',
  );
});
