/** `boxkite run` and `boxkite doctor` as a user calls them, with real sandboxes. */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, lane, PROBE_MODE } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cli, doctorReport, onTerminal, outcomeOf, startCli } from './support/cli.ts';

const IS_LINE = /^boxkite: .+ \([a-z_]+\)\nhint: .+\n$/;

describe(`command line, ${lane}`, () => {
  let tree = '';

  beforeAll(() => {
    tree = mkdtempSync(join(tmpdir(), 'boxkite-cli-'));
    mkdirSync(join(tree, 'sub'));
    writeFileSync(join(tree, 'sub', 'data'), 'from the caller');
    writeFileSync(join(tree, 'script'), '#!/bin/sh\necho "script: $*"\n');
    chmodSync(join(tree, 'script'), 0o755);
    symlinkSync('sub/data', join(tree, 'link'));
    symlinkSync('/etc/shadow', join(tree, 'out'));
  });
  afterAll(() => {
    rmSync(tree, { recursive: true, force: true });
  });

  describe('run', () => {
    it('passes output, input, arguments, environment and exit status on', async () => {
      const script = 'cat; echo "$1|$NAME|$PWD|$HOME" ; echo err >&2; exit 7';
      const outcome = await cli(['run', '--env', 'NAME=v=1', '--', 'sh', '-c', script, 'x', 'a b'], {
        input: 'input\n',
      });
      expect(outcome.stdout.toString()).toBe('input\na b|v=1|/workspace|/workspace\n');
      expect(outcome.stderr).toBe('err\n');
      expect(outcome.status).toBe(7);
    });

    it('gives nothing of the caller’s environment and directory', async () => {
      const outcome = await cli(['run', '--', 'sh', '-c', 'env; ls -A'], { env: { CANARY: 'secret' }, cwd: tree });
      expect(outcome.stdout.toString()).not.toContain('CANARY');
      expect(outcome.stdout.toString()).not.toContain('script');
    });

    it('has no network', async () => {
      const { stdout } = await cli([
        'run',
        '--',
        'sh',
        '-c',
        'tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/net/route | wc -l',
      ]);
      expect(stdout.toString().trim().split(/\s+/)).toEqual(['lo', '1']);
    });

    it('passes large binary input and output on, byte for byte', async () => {
      const input = Buffer.alloc(5_000_003, 'bytes\0\xff');
      const { stdout, status } = await cli(['run', '--', 'cat'], { input });
      expect(status).toBe(0);
      expect(createHash('sha256').update(stdout).digest('hex')).toBe(createHash('sha256').update(input).digest('hex'));
    });

    it('ends with its command, although nobody closes its input', async () => {
      const child = startCli(['run', '--', 'true']);
      expect((await outcomeOf(child)).status).toBe(0);
    });

    it('sees empty input behind /dev/null', async () => {
      const { stdout } = await cli(['run', '--', 'sh', '-c', 'cat; echo end'], { input: null });
      expect(stdout.toString()).toBe('end\n');
    });

    it.each([
      [['no-such-program'], 127, 'command_not_found'],
      [['/workspace/none'], 127, 'command_not_found'],
      [['/etc/passwd'], 126, 'not_executable'],
    ])('%j ends with %i', async (argv, status, code) => {
      const outcome = await cli(['run', '--', ...argv]);
      expect(outcome.status).toBe(status);
      expect(outcome.stderr).toMatch(IS_LINE);
      expect(outcome.stderr).toContain(`: ${argv[0]} (${code})`);
    });

    it('reports a signal as a shell does', async () => {
      expect((await cli(['run', '--', 'sh', '-c', 'kill -SEGV $$'])).status).toBe(139);
    });

    it('kills everything at the time limit and keeps what was written', async () => {
      const outcome = await cli(['run', '--timeout', '0.5', '--', 'sh', '-c', 'echo before; trap "" TERM; sleep 60']);
      expect(outcome.status).toBe(124);
      expect(outcome.stdout.toString()).toBe('before\n');
      expect(outcome.stderr).toContain('time limit of 0.5 s');
    });

    it('starts in --cwd, relative to the workspace', async () => {
      const { stdout } = await cli(['run', '--copy', tree, '--cwd', 'sub', '--', 'pwd']);
      expect(stdout.toString()).toBe('/workspace/sub\n');
      const outcome = await cli(['run', '--cwd', 'none', '--', 'pwd']);
      expect(outcome.status).toBe(2);
      expect(outcome.stderr).toContain('bad_directory');
    });

    it('copies a tree: content, modes, links as links', async () => {
      const script =
        'cat sub/data link; echo; ./script a; readlink out; cat out 2>/dev/null || echo unreadable; stat -c %a script';
      const { stdout } = await cli(['run', '--copy', tree, '--', 'sh', '-c', script]);
      expect(stdout.toString()).toBe('from the callerfrom the caller\nscript: a\n/etc/shadow\nunreadable\n755\n');
    });

    it('notes what a copy leaves out, and refuses one that does not fit', async () => {
      const place = mkdtempSync(join(tmpdir(), 'boxkite-cli-'));
      try {
        execFileSync('mkfifo', [join(place, 'pipe')]);
        writeFileSync(join(place, 'big'), Buffer.alloc(3 * 1024 * 1024));
        const fits = await cli(['run', '--copy', place, '--', 'ls']);
        expect(fits.status).toBe(0);
        expect(fits.stderr).toContain('pipe is a device, socket or pipe');
        expect(fits.stdout.toString()).toBe('big\n');
        const outcome = await cli(['run', '--copy', place, '--workspace', '2', '--', 'ls']);
        expect(outcome.status).toBe(2);
        expect(outcome.stderr).toContain('(no_space)');
      } finally {
        rmSync(place, { recursive: true });
      }
    });

    it('limits processes and files', async () => {
      const forks = 'i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; echo all';
      const outcome = await cli(['run', '--pids', '20', '--', 'sh', '-c', forks]);
      expect(outcome.stdout.toString()).not.toContain('all');
      expect(outcome.status).not.toBe(0);
      const full = await cli(['run', '--workspace', '4', '--', 'sh', '-c', 'head -c 8000000 /dev/zero > big; echo $?']);
      expect(full.stdout.toString()).toBe('1\n');
      expect(full.stderr).toContain('No space left on device');
    });

    it('enforces --memory or refuses it with the remedy', async () => {
      const program = 'x = bytearray(300 << 20); print(len(x))';
      const outcome = await cli(['run', '--memory', '64', '--', '/usr/bin/python3', '-c', program]);
      if (outcome.status === 2) {
        expect(outcome.stderr).toMatch(IS_LINE);
        expect(outcome.stderr).toContain('isolation_unavailable');
        const report = await doctorReport();
        expect(report.lines.find(({ name }) => name === 'memory_limit')).toMatchObject({
          status: 'missing',
        });
        return;
      }
      expect(outcome.status).toBe(137);
      expect(outcome.stderr).toContain('memory limit of 64 MiB');
    });

    it('prints the record as the only thing on standard output with --json', async () => {
      const outcome = await cli(['run', '--json', '--', 'sh', '-c', 'echo out; printf "\\377" >&2; exit 3']);
      expect(outcome.status).toBe(3);
      expect(JSON.parse(outcome.stdout.toString())).toMatchObject({
        end: 'exited',
        exit_code: 3,
        signal: null,
        stdout: 'out\n',
        stdout_bytes: 4,
        stdout_truncated: false,
        stderr: '\ufffd',
        stderr_base64: '/w==',
        effective: { user: { uid: 1001 }, network: 'none', no_new_privs: true, seccomp: 'filter' },
      });
      expect(outcome.stderr).toBe('');
      const failed = await cli(['run', '--json', '--', 'no-such-program']);
      expect(failed.status).toBe(127);
      expect(JSON.parse(failed.stdout.toString())).toMatchObject({ error: { code: 'command_not_found' } });
    });

    it.each([
      [['--nonsense', '--', 'true']],
      [['--rootfs', '/nonexistent', '--', 'true']],
      [['--copy', '/nonexistent', '--', 'true']],
      [['--workspace', '0', '--', 'true']],
      [[]],
    ])('%j is refused in one line with a hint', async (args) => {
      const outcome = await cli(['run', ...args]);
      expect(outcome.status).toBe(2);
      expect(outcome.stderr).toMatch(IS_LINE);
    });

    it('hands an interrupt on to the command', async () => {
      const child = startCli([
        'run',
        '--',
        'sh',
        '-c',
        'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.05; done',
      ]);
      await once(child.stdout ?? child, 'data');
      const ended = outcomeOf(child);
      child.kill('SIGINT');
      expect(await ended).toMatchObject({ status: 5, stdout: Buffer.from('caught\n') });
    });

    it('kills the command at the second signal', async () => {
      const child = startCli(['run', '--', 'sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 0.05; done']);
      await once(child.stdout ?? child, 'data');
      const ended = outcomeOf(child);
      child.kill('SIGTERM');
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(child.exitCode).toBeNull();
      child.kill('SIGTERM');
      expect((await ended).status).toBe(143);
    });

    it('makes a command wait whose output nobody reads, in flat memory, and is killable meanwhile', async () => {
      const child = startCli(['run', '--', 'yes']);
      const rss = (): number =>
        Number(execFileSync('ps', ['-o', 'rss=', '-p', String(child.pid)], { encoding: 'utf8' }));
      await once(child.stdout ?? child, 'readable');
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const before = rss();
      await new Promise((resolve) => setTimeout(resolve, 1500));
      expect(rss() - before).toBeLessThan(20 * 1024);
      child.kill('SIGTERM');
      child.kill('SIGTERM');
      child.stdout?.resume();
      expect((await outcomeOf(child)).status).toBe(143);
    });

    it('ends quietly when its reader has gone', async () => {
      const child = startCli(['run', '--', 'yes']);
      const head = spawn('head', ['-c', '10'], { stdio: [child.stdout ?? 'ignore', 'pipe', 'inherit'] });
      head.stdout.resume();
      await once(head, 'close');
      // Ours is the last reader.
      child.stdout?.destroy();
      let stderr = '';
      child.stderr?.setEncoding('utf8').on('data', (text: string) => {
        stderr += text;
      });
      const ended: readonly unknown[] = await once(child, 'exit');
      expect(ended[0]).toBe(141);
      expect(stderr).toBe('');
    });

    it('leaves nothing running when it is killed itself', async () => {
      const child = startCli(['run', '--', 'sh', '-c', 'echo ready; sleep 4242']);
      await once(child.stdout ?? child, 'data');
      const running = (): boolean =>
        execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).split('\n').includes('sleep 4242');
      await eventually(running, 5000, () => 'the command runs');
      child.kill('SIGKILL');
      await eventually(
        () => !running(),
        5000,
        () => 'the command is gone',
      );
    });
  });

  describe('on a terminal', () => {
    it('gives the command a terminal of the same size, and sets the modes back', async () => {
      const script = 'test -t 0 && test -t 1 && test -t 2 && echo tty; stty size; echo $TERM';
      const outcome = await onTerminal([], ['run', '--', 'sh', '-c', script]);
      expect(outcome).toMatchObject({ status: 0, restored: true });
      expect(outcome.output).toBe('tty\r\n30 90\r\nxterm\r\n');
    });

    it('passes keys, Ctrl-C and changes of size on', async () => {
      const program = [
        'import os, signal, sys',
        // Each in one write: Python's own are in pieces, and none may begin within another one.
        'def size(*_): s = os.get_terminal_size(); os.write(1, b"%d %d\\n" % (s.lines, s.columns))',
        'def stop(*_): os.write(1, b"caught\\n"); sys.exit(6)',
        'signal.signal(signal.SIGWINCH, size)',
        'signal.signal(signal.SIGINT, stop)',
        'print("ready")',
        'while True: print("got", input())',
      ].join('\n');
      const steps = [
        { expect: 'ready\r\n' },
        { send: 'one\r' },
        { expect: 'got one\r\n' },
        { resize: [100, 40] },
        { expect: '40 100\r\n' },
        { send: '\x03' },
        { expect: 'caught' },
      ] as const;
      const outcome = await onTerminal(steps, ['run', '--', '/usr/bin/python3', '-uc', program]);
      expect(outcome).toMatchObject({ status: 6, restored: true });
      expect(outcome.output).toBe('ready\r\none\r\ngot one\r\n40 100\r\n^Ccaught\r\n');
    });

    it.each([
      ['a command that is not there', [], ['run', '--', 'no-such-program'], 127],
      ['a time limit', [], ['run', '--timeout', '0.3', '--', 'sleep', '60'], 124],
      ['Ctrl-C', [{ expect: 'ready' }, { send: '\x03' }], ['run', '--', 'sh', '-c', 'echo ready; exec sleep 60'], 130],
      ['SIGTERM', [{ expect: 'ready' }, { signal: 15 }], ['run', '--', 'sh', '-c', 'echo ready; exec sleep 60'], 143],
    ] as const)('sets the modes back after %s', async (_name, steps, args, status) => {
      expect(await onTerminal(steps, args)).toMatchObject({ status, restored: true });
    });
  });

  describe('doctor', () => {
    it('says how sandboxes work here, for people and for programs', async () => {
      const plain = await cli(['doctor', '--machine']);
      expect(plain.status).toBe(0);
      expect(plain.stdout.toString()).toContain('Sandboxes work here');
      const report = await doctorReport();
      expect(report).toMatchObject({ sandboxes: true, mode: PROBE_MODE[lane] });
      expect(report.lines.length).toBeGreaterThan(4);
      for (const line of report.lines) {
        expect(line.means).toMatch(/\w/);
        if (line.status === 'missing') expect(line.remedy).toMatch(/\w/);
      }
    });
  });
});
