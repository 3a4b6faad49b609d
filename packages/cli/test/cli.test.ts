import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { exitStatusOf } from '../src/exit-status.ts';
import { realServices } from '../src/real-services.ts';
import { describeError } from '../src/report-error.ts';
import { call, services } from './support/fake-io.ts';

/** The real private provider, and no daemon, whatever runs on this machine. */
const alone = { ...realServices, findServer: async () => null };

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
  const { status, out, err } = await call(args, alone);
  expect(status).toBe(2);
  expect(err).toMatch(/^boxkite: .+ \(invalid_request\)\nhint: .+\n$/);
  expect(out).toBe('');
});

test('with --json the error is the one object on standard output', async () => {
  const { status, out, err } = await call(['run', '--json', '--rootfs', '/nonexistent', '--', 'true'], alone);
  expect(status).toBe(2);
  expect(JSON.parse(out)).toMatchObject({ error: { code: 'invalid_request', details: { field: 'rootfs' } } });
  expect(err).toContain('/nonexistent is not there');
});

const COMMANDS =
  'run create ls exec sh cp ps logs kill top extend start stop rm keys doctor serve status sidecar'.split(' ');

test.each([[['--help']], [['-h']], [['help']], ...COMMANDS.map((name) => [[name, '--help']])])(
  '%j prints help in lines that fit a wide terminal',
  async (args) => {
    const { status, out, err } = await call(args, services(null));
    expect(err).toBe('');
    expect(status).toBe(0);
    expect(out).toMatch(/^Usage: boxkite/);
    expect(out.split('\n').filter((line) => line.length > 120)).toEqual([]);
  },
);

test('the help names every command', async () => {
  const { out } = await call(['--help'], services(null));
  for (const name of COMMANDS) expect(out).toMatch(new RegExp(`\\b${name}\\b`));
  expect(await call(['help', 'ls'], services(null))).toEqual(await call(['ls', '--help'], services(null)));
});

test.each([
  ['lss', 'ls'],
  ['exce', 'exec'],
  ['remove', undefined],
  ['creat', 'create'],
])('a command that is not there, such as %s, is answered with a guess: %s', async (given, guess) => {
  const { status, err } = await call([given], services(null));
  expect(status).toBe(2);
  expect(err).toContain(guess === undefined ? 'See `boxkite --help`' : `Did you mean \`boxkite ${guess}\`?`);
});

test('--version prints the version alone', async () => {
  const { status, out } = await call(['--version'], services(null));
  expect(status).toBe(0);
  expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test.each([
  [['ls']],
  [['create']],
  [['exec', 'x', '--', 'true']],
  [['sh', 'x']],
  [['cp', 'x:a', 'b']],
  [['ps']],
  [['logs', 'x']],
  [['kill', 'x', '1']],
  [['top']],
  [['extend', 'x', '5']],
  [['start', 'x']],
  [['stop', 'x']],
  [['rm', 'x']],
  [['keys', 'ls']],
])('%j without a daemon says so, and how to start one', async (args) => {
  const { status, out, err } = await call(args, services(null));
  expect(status).toBe(1);
  expect(out).toBe('');
  expect(err).toContain('(daemon_unreachable)\nhint: Start one by `boxkite serve --detach`');
});

test('without a daemon --json has the error on standard output', async () => {
  const { out } = await call(['ls', '--json'], services(null));
  expect(JSON.parse(out)).toMatchObject({ error: { code: 'daemon_unreachable', retryable: true } });
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
