/** The command line where its standard output is full, or nobody reads it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lane, startDaemon, type TestDaemon } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CliOptions, CliOutcome } from './support/cli.ts';
import { cli, MAIN } from './support/cli.ts';

const FULL = /boxkite: standard output can't be written: its disk is full \(io_error\)\nhint: .+\n$/;

/** Commands that print something, with `ID` for the sandbox, `EXEC` for what ran in it. */
const COMMANDS = [
  ['ls'],
  ['ls', '-q'],
  ['ls', '--json'],
  ['ps', '--all', 'ID'],
  ['top', '--once'],
  ['top', '--json'],
  ['run', '--', 'echo', 'x'],
  ['run', '--', 'yes'],
  ['run', '--json', '--', 'true'],
  ['run', '--private', '--', 'echo', 'x'],
  ['exec', 'ID', '--', 'echo', 'x'],
  ['exec', 'ID', '--', 'yes'],
  ['exec', '-d', 'ID', '--', 'true'],
  ['logs', 'ID', 'EXEC'],
  ['cp', 'ID:big', '-'],
  ['cp', 'ID:small', '-'],
  ['cp', '--json', 'ID:empty', 'HERE/copy'],
  ['create'],
  ['create', '--json'],
  ['keys', 'create', 'lost'],
  ['doctor', '--machine'],
  ['doctor', '--machine', '--json'],
  ['--version'],
  ['--help'],
];
const WORDS = COMMANDS.map((words) => [words] as const);

describe(`standard output of the command line, ${lane}`, () => {
  let daemon: TestDaemon;
  let env: Record<string, string> = {};
  let here = '';
  let id = '';
  let exec = '';

  const bk = (args: readonly string[], options: CliOptions = {}): Promise<CliOutcome> =>
    cli(args, { input: null, ...options, env });
  const filled = (args: readonly string[]): string[] =>
    args.map((word) => word.replace(/^ID/, id).replace(/^EXEC/, exec).replace(/^HERE/, here));

  beforeAll(async () => {
    daemon = await startDaemon();
    env = { BOXKITE_URL: daemon.url };
    here = mkdtempSync(join(tmpdir(), 'boxkite-output-'));
    id = (await bk(['create'])).stdout.toString().trim();
    const script = 'mkdir empty; head -c 5000000 /dev/zero > big; head -c 10000 /dev/zero > small; echo out';
    expect(await bk(['exec', id, '--', 'sh', '-c', script])).toMatchObject({ status: 0 });
    const listed = (await bk(['ps', '--all', '--json', id])).stdout.toString();
    exec = /"exec_id": "([^"]+)"/.exec(listed)?.[1] ?? '';
  });
  afterAll(async () => {
    rmSync(here, { recursive: true, force: true });
    await daemon[Symbol.asyncDispose]();
  });

  async function into(stdout: number, args: readonly string[]): Promise<CliOutcome> {
    try {
      return await bk(filled(args), { stdout });
    } finally {
      closeSync(stdout);
    }
  }

  /** The end of a pipe that nobody reads. */
  function unread(): number {
    const path = join(here, 'pipe');
    execFileSync('mkfifo', [path]);
    const both = openSync(path, 'r+');
    const end = openSync(path, 'w');
    closeSync(both);
    rmSync(path);
    return end;
  }

  it.each(WORDS)('is full: a fault that is told: %j', async (args) => {
    const { status, stderr } = await into(openSync('/dev/full', 'w'), args);
    expect(stderr).toMatch(FULL);
    expect(status).toBe(1);
  });

  it.each(WORDS)('is read by nobody: %j', async (args) => {
    const { status, stderr } = await into(unread(), args);
    expect(stderr).not.toContain('hint:');
    expect(status).toBe(141);
  });

  it.each([[['create']], [['create', '--json']]])('tells of a sandbox otherwise: %j', async (args) => {
    for (const stdout of [openSync('/dev/full', 'w'), unread()]) {
      const { stderr } = await into(stdout, args);
      const made = /^boxkite: the sandbox (\S+) was made and stays\n/.exec(stderr)?.[1] ?? '';
      expect((await bk(['ls', '-q'])).stdout.toString().split('\n')).toContain(made);
    }
  });

  it('takes a part of a file for no whole one', async () => {
    // The limit cuts a write short as a disk does that fills up in the middle of it.
    const path = join(here, 'part');
    const script = 'ulimit -f 2; exec "$@" > "$0"';
    const main = ['-c', script, path, process.execPath, MAIN, ...filled(['cp', 'ID:small', '-'])];
    const { status, stderr } = spawnSync('sh', main, { encoding: 'utf8', env: { ...process.env, ...env } });
    expect(stderr).toContain("standard output can't be written: it would be too large (io_error)");
    expect(status).toBe(1);
    expect(statSync(path).size).toBeGreaterThan(0);
  });

  it('is as it was where all is well', async () => {
    const path = join(here, 'whole');
    expect(await into(openSync(path, 'w'), ['cp', 'ID:big', '-'])).toMatchObject({ status: 0, stderr: '' });
    expect(statSync(path).size).toBe(5_000_000);
  });
});
