/** The same calls of the SDK over private runners of this process and over a daemon: which of them is configuration alone. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { eventually, lane, processes, startDaemon, type TestDaemon } from '@boxkite/testing';
import { BoxkiteFailure, CommandFailedError, Sandbox, type SandboxOptions } from 'boxkite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

describe.each(['private', 'daemon'] as const)(`SDK, ${lane}, %s`, (way) => {
  let daemon: TestDaemon | undefined;
  let where: SandboxOptions = { daemon: false };
  let sandbox: Sandbox;

  const create = (options: SandboxOptions = {}): Promise<Sandbox> => Sandbox.create({ ...where, ...options });

  beforeAll(async () => {
    if (way === 'daemon') {
      daemon = await startDaemon();
      where = { url: daemon.url };
    }
    sandbox = await create({ workspace_mb: 64 });
  });
  afterAll(async () => {
    await sandbox.destroy();
    await daemon?.[Symbol.asyncDispose]();
  });

  describe('exec', () => {
    it('collects both streams, the record and what was measured', async () => {
      const result = await sandbox.exec('echo out; echo err >&2; exit 3');
      expect(result).toMatchObject({
        stdout: 'out\n',
        stderr: 'err\n',
        exitCode: 3,
        ok: false,
        end: 'exited',
        exit_code: 3,
        stdout_bytes: 4,
      });
      expect(result.effective).toMatchObject({
        user: { uid: 1001, gid: 1001 },
        no_new_privs: true,
        seccomp: 'filter',
        network: 'none',
      });
      expect(result.duration_ms).toBeGreaterThan(0);
    });

    it('runs an array without a shell', async () => {
      expect((await sandbox.exec(['printf', '%s|', '$HOME', 'a b', '*'])).stdout).toBe('$HOME|a b|*|');
    });

    it('passes input of any size and text of any language on', async () => {
      expect((await sandbox.exec('cat', { stdin: 'naïve ☃ 𝄞' })).stdout).toBe('naïve ☃ 𝄞');
      const large = new Uint8Array(2_000_000).fill(65);
      expect((await sandbox.exec(['wc', '-c'], { stdin: large })).stdout.trim()).toBe('2000000');
      expect((await sandbox.exec('cat')).stdout).toBe('');
    });

    it('has the fixed environment and what is added', async () => {
      const { stdout } = await sandbox.exec('env | sort', { env: { EXTRA: 'yes' } });
      const names = stdout
        .trim()
        .split('\n')
        .map((line) => line.split('=')[0]);
      expect(names.filter((name) => name !== 'PWD' && name !== '_' && name !== 'SHLVL' && name !== 'OLDPWD')).toEqual([
        'EXTRA',
        'HOME',
        'LANG',
        'LOGNAME',
        'PATH',
        'SHELL',
        'TMPDIR',
        'USER',
      ]);
    });

    it('starts in cwd, relative to the workspace', async () => {
      await sandbox.files.mkdir('deep/er');
      expect((await sandbox.exec('pwd', { cwd: 'deep/er' })).stdout).toBe('/workspace/deep/er\n');
      expect((await sandbox.exec('pwd', { cwd: '/tmp' })).stdout).toBe('/tmp\n');
      await expect(sandbox.exec('pwd', { cwd: 'none' })).rejects.toMatchObject({ code: 'bad_directory' });
    });

    it('shares files between commands, and nothing that runs', async () => {
      await sandbox.exec('echo kept > kept; sleep 300 & sleep 300 &');
      const { stdout } = await sandbox.exec('cat kept; for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; done');
      expect(stdout).toContain('kept');
      expect(stdout).not.toContain('sleep 300');
    });

    it('rejects a program that is not there or not executable, and leaves a shell its 127', async () => {
      await expect(sandbox.exec(['no-such-program'])).rejects.toMatchObject({ code: 'command_not_found' });
      await expect(sandbox.exec(['/etc/passwd'])).rejects.toMatchObject({ code: 'not_executable' });
      expect(await sandbox.exec('no-such-program')).toMatchObject({ exitCode: 127, ok: false });
    });

    it('refuses a NUL and an argument list of 200 MB, and runs 100,000 short arguments', async () => {
      await expect(sandbox.exec(['echo', 'a\0b'])).rejects.toMatchObject({ code: 'invalid_request' });
      await expect(sandbox.exec(['echo', 'x'.repeat(200_000_000)])).rejects.toMatchObject({
        code: 'argument_list_too_long',
      });
      const many = Array.from({ length: 100_000 }, (_unused, index) => String(index));
      const result = await sandbox.exec(['sh', '-c', 'echo $#', 'sh', ...many]);
      expect(result.stdout).toBe('100000\n');
    });

    it('throws with check, and carries the result', async () => {
      const error = await sandbox.exec('echo why >&2; exit 4', { check: true }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(CommandFailedError);
      expect(error).toMatchObject({
        code: 'command_failed',
        message: 'the command ended with exit status 4: why',
        result: { exitCode: 4 },
      });
    });

    it('keeps the ends of long output and counts all of it', async () => {
      const result = await sandbox.exec('echo first; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo last', {
        max_output_bytes: 1000,
      });
      expect(result).toMatchObject({ stdout_bytes: 3_000_012, stdout_truncated: true, ok: true });
      expect(result.raw.stdout.length).toBe(1000);
      expect(result.stdout.startsWith('first\n')).toBe(true);
      expect(result.stdout.endsWith('last\n')).toBe(true);
    });

    it('kills at the time limit and answers with the output up to then', async () => {
      const result = await sandbox.exec('echo before; trap "" TERM; (setsid sleep 60 &); sleep 60', {
        timeout_ms: 300,
      });
      expect(result).toMatchObject({ end: 'timed_out', exitCode: 124, stdout: 'before\n', exit_code: null });
    });

    it('kills at an abort, and refuses one that was aborted before', async () => {
      const stop = new AbortController();
      setTimeout(() => stop.abort(), 200);
      await expect(sandbox.exec('sleep 4343', { signal: stop.signal })).rejects.toMatchObject({ code: 'aborted' });
      await expect(sandbox.exec('true', { signal: stop.signal })).rejects.toMatchObject({ code: 'aborted' });
      expect((await sandbox.exec('true')).ok).toBe(true);
    });

    it('runs many at once', async () => {
      const results = await Promise.all(
        Array.from({ length: 24 }, (_unused, index) => sandbox.exec(`sleep 0.1; echo ${index}`)),
      );
      expect(results.map(({ stdout }) => Number(stdout))).toEqual(
        Array.from({ length: 24 }, (_unused, index) => index),
      );
    });
  });

  describe('stream', () => {
    it('gives events as they come, the end last', async () => {
      const seen: string[] = [];
      const stream = sandbox.stream('echo one; read -r _; echo two >&2; read -r _; printf ☃', { stdin: 'stream' });
      for await (const event of stream) {
        seen.push(event.type === 'output' ? `${event.stream} ${event.text}` : event.type);
        if (seen.length < 3) await stream.write('\n');
      }
      expect(seen).toEqual(['stdout one\n', 'stderr two\n', 'stdout ☃', 'ended']);
    });

    it('talks to a command', async () => {
      const stream = sandbox.stream('while read -r line; do echo "got $line"; done; echo bye', { stdin: 'stream' });
      let text = '';
      let sent = 0;
      await stream.write('a\n');
      for await (const event of stream) {
        if (event.type !== 'output') continue;
        text += event.text;
        sent += 1;
        if (sent === 1) await stream.write('b\n');
        if (sent === 2) await stream.closeStdin();
      }
      expect(text).toBe('got a\ngot b\nbye\n');
      expect(await stream.result).toMatchObject({ ok: true, exitCode: 0 });
    });

    it('sends signals, and kills', async () => {
      const polite = sandbox.stream('trap "echo caught; exit 9" USR1; echo ready; while :; do sleep 0.02; done');
      for await (const event of polite)
        if (event.type === 'output' && event.text === 'ready\n') await polite.signal('SIGUSR1');
      expect(await polite.result).toMatchObject({ exitCode: 9 });
      const stubborn = sandbox.stream('trap "" TERM INT HUP; while :; do sleep 0.02; done');
      await stubborn.started;
      await stubborn.kill();
      expect(await stubborn.result).toMatchObject({ end: 'killed', exitCode: 137 });
      await stubborn.kill();
      await expect(stubborn.signal('SIGTERM')).rejects.toMatchObject({ code: 'exec_ended' });
    });

    it('gives a terminal and changes its size', async () => {
      const stream = sandbox.stream('stty size; read -r x; stty size', {
        stdin: 'stream',
        tty: { columns: 91, rows: 33 },
      });
      let text = '';
      for await (const event of stream) {
        if (event.type !== 'output') continue;
        text += event.text;
        if (text === '33 91\r\n') {
          await stream.resize(70, 20);
          await stream.write('\n');
        }
      }
      expect(text).toBe('33 91\r\n\r\n20 70\r\n');
    });

    it('kills the command when its loop is left', async () => {
      const stream = sandbox.stream('yes');
      for await (const event of stream) if (event.type === 'output') break;
      await expect(stream.result).rejects.toMatchObject({ code: 'aborted' });
      const { stdout } = await sandbox.exec('ls /proc | grep -c "^[0-9]"');
      expect(Number(stdout)).toBeLessThan(6);
    });

    it('makes a command wait whose events nobody takes', async () => {
      const stream = sandbox.stream('head -c 50000000 /dev/zero; echo done >&2');
      await stream.started;
      await new Promise((resolve) => setTimeout(resolve, 500));
      let bytes = 0;
      for await (const event of stream)
        if (event.type === 'output' && event.stream === 'stdout') bytes += event.data.length;
      expect(bytes).toBe(50_000_000);
    });
  });

  describe('files', () => {
    it('writes, reads, lists, moves and removes', async () => {
      await sandbox.files.write('dir/a.txt', 'text ☃');
      await sandbox.files.write('/workspace/dir/b.bin', new Uint8Array([0, 255]), { mode: 0o700 });
      expect(await sandbox.files.read('dir/a.txt')).toBe('text ☃');
      expect(await sandbox.files.readBytes('dir/b.bin')).toEqual(Buffer.from([0, 255]));
      expect((await sandbox.files.list('dir')).map(({ name, type, size, mode }) => [name, type, size, mode])).toEqual([
        ['a.txt', 'file', 8, 0o644],
        ['b.bin', 'file', 2, 0o700],
      ]);
      expect((await sandbox.exec('cat dir/a.txt')).stdout).toBe('text ☃');
      await sandbox.files.move('dir/a.txt', 'dir/c.txt');
      expect(await sandbox.files.exists('dir/a.txt')).toBe(false);
      expect(await sandbox.files.stat('dir/c.txt')).toMatchObject({
        name: 'c.txt',
        path: '/workspace/dir/c.txt',
        size: 8,
      });
      await sandbox.files.remove('dir');
      expect(await sandbox.files.exists('dir/c.txt')).toBe(false);
    });

    it('streams both ways', async () => {
      const chunk = new Uint8Array(100_000).fill(7);
      async function* source(): AsyncGenerator<Uint8Array> {
        for (let index = 0; index < 30; index += 1) yield chunk;
      }
      await sandbox.files.write('stream', source());
      let bytes = 0;
      for await (const part of sandbox.files.readStream('stream', { offset: 1, length: 2_000_000 }))
        bytes += part.length;
      expect(bytes).toBe(2_000_000);
      await sandbox.files.remove('stream');
    });

    it.each([
      ['none', 'file_not_found'],
      ['/etc/passwd', 'outside_roots'],
      ['../../etc/passwd', 'outside_roots'],
      ['.', 'is_directory'],
      ['', 'invalid_request'],
      ['a\0b', 'invalid_request'],
    ])('reading %j fails with %s', async (path, code) => {
      const error = await sandbox.files.read(path).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(BoxkiteFailure);
      expect(error).toMatchObject({ code });
    });

    it('reaches nothing through a link that an agent made', async () => {
      await sandbox.exec('ln -s /etc/passwd trap; ln -s /proc/self/environ trap2');
      await expect(sandbox.files.read('trap')).rejects.toMatchObject({ code: 'file_not_found' });
      expect(await sandbox.files.stat('trap')).toMatchObject({ type: 'symlink', target: '/etc/passwd' });
    });

    it('reports a full workspace, leaves nothing of the write, and goes on', async () => {
      await expect(sandbox.files.write('big', new Uint8Array(80 * 1024 * 1024))).rejects.toMatchObject({
        code: 'no_space',
      });
      expect(await sandbox.files.exists('big')).toBe(false);
      await sandbox.files.write('small', 'x');
      expect(await sandbox.files.read('small')).toBe('x');
    });

    it('is refused from a sparse file that would fill memory', async () => {
      await sandbox.exec('truncate -s 50G sparse');
      await expect(sandbox.files.readBytes('sparse', { max_bytes: 1_000_000 })).rejects.toMatchObject({
        code: 'file_too_large',
      });
      await sandbox.files.remove('sparse');
    });

    it('ends a call at its deadline', async () => {
      async function* endless(): AsyncGenerator<Uint8Array> {
        for (;;) {
          await new Promise((resolve) => setTimeout(resolve, 20));
          yield new Uint8Array(1);
        }
      }
      await expect(sandbox.files.write('slow', endless(), { timeout_ms: 200 })).rejects.toMatchObject({
        code: 'timeout',
      });
      expect(await sandbox.files.exists('slow')).toBe(false);
    });
  });

  describe('life of a sandbox', () => {
    it('keeps sandboxes apart', async () => {
      await using other = await create();
      await sandbox.files.write('mine', 'secret');
      expect(await other.files.exists('mine')).toBe(false);
      expect(other.id).not.toBe(sandbox.id);
    });

    it('refuses everything after destroy, which may be called again', async () => {
      const gone = await create();
      await gone.files.write('x', 'x');
      const running = gone.stream('sleep 60');
      await running.started;
      const ended = running.result;
      await Promise.all([gone.destroy(), gone.destroy()]);
      expect(await ended).toMatchObject({ end: 'killed', reason: 'sandbox_closed' });
      await expect(gone.exec('true')).rejects.toMatchObject({ code: 'closing' });
      await expect(gone.files.read('x')).rejects.toMatchObject({ code: 'closing' });
      await gone.destroy();
    });

    it.each([
      [{ rootfs: '/nonexistent' }, 'rootfs'],
      [{ copy: '/nonexistent' }, 'copy'],
      [{ memory_mb: -1 }, 'memory_mb'],
    ])('refuses %j by name', async (options, field) => {
      await expect(create(options)).rejects.toMatchObject({ code: 'invalid_request', details: { field } });
    });

    it('is not made after an abort', async () => {
      await expect(create({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'aborted' });
    });

    if (way === 'private')
      it('lets its program end by itself, without destroy, and leaves nothing of it', async () => {
        const child = spawn(process.execPath, [join(import.meta.dirname, 'support', 'forgetful.ts')], {
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        child.stdout.setEncoding('utf8');
        const printed: readonly unknown[] = await once(child.stdout, 'data');
        const ended: readonly unknown[] = await once(child, 'exit');
        expect(ended[0]).toBe(0);
        const runner = Number(printed[0]);
        expect(runner).toBeGreaterThan(1);
        const alive = (): boolean => processes().some(({ pid, state }) => pid === runner && state !== 'Z');
        await eventually(
          () => !alive(),
          5000,
          () => `the runner ${runner} is alive`,
        );
      });
  });
});
