import { createHash } from 'node:crypto';
import type { ExecEvent } from '@boxkite/protocol';
import {
  collect,
  lane,
  python,
  run,
  sh,
  sleep,
  startRunner,
  startStaying,
  type TestRunner,
  type TestSandbox,
  within,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

describe(`exec, ${lane}`, () => {
  let runner: TestRunner;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    runner = await startRunner();
    sandbox = await runner.create();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  describe('ends', () => {
    it.each([0, 1, 2, 42, 126, 127, 255])('with exit code %i', async (code) => {
      const { record } = await sh(sandbox, `exit ${code}`);
      expect(record).toMatchObject({ end: 'exited', exit_code: code, signal: null, reason: null });
      expect(record.duration_ms).toBeGreaterThan(0);
    });

    it.each(['SIGTERM', 'SIGKILL', 'SIGSEGV', 'SIGPIPE', 'SIGABRT', 'SIGUSR1'])('by %s of its own', async (signal) => {
      const { record } = await sh(sandbox, `kill -${signal.slice(3)} $$; sleep 5`);
      expect(record).toMatchObject({ end: 'signaled', exit_code: null, signal, reason: null });
    });

    it('as timed out, whatever it ignores', async () => {
      const { record, stdout } = await sh(sandbox, 'trap "" TERM INT HUP; echo before; sleep 30', {
        timeout_ms: within(300),
      });
      expect(record).toMatchObject({ end: 'timed_out', exit_code: null });
      expect(stdout).toBe('before\n');
      expect(record.duration_ms).toBeGreaterThanOrEqual(within(300));
      expect(record.duration_ms).toBeLessThan(within(2000));
    });

    it('as killed when it was asked for', async () => {
      const staying = await startStaying(sandbox, ['/bin/sh', '-c', 'trap "" TERM; echo on; sleep 30']);
      await staying.handle.kill();
      expect((await staying.drain()).record).toMatchObject({ end: 'killed', reason: 'requested', exit_code: null });
    });

    it('as killed when its CPU time is used up, by all its processes together', async () => {
      const program = 'import os\nfor _ in range(3): os.fork()\nwhile True: pass';
      const started = performance.now();
      if (lane !== 'root') {
        await expect(python(sandbox, program, { limits: { cpu_ms: 400 } })).rejects.toMatchObject({
          code: 'isolation_unavailable',
        });
        return;
      }
      const { record } = await python(sandbox, program, { limits: { cpu_ms: 400 } });
      expect(record).toMatchObject({ end: 'killed', reason: 'cpu_limit' });
      expect(record.usage.cpu_ms).toBeGreaterThanOrEqual(400);
      expect(record.usage.cpu_ms).toBeLessThan(within(2500));
      expect(performance.now() - started).toBeLessThan(within(5000));
    });

    it('as killed when its sandbox is closed', async () => {
      const other = await runner.create();
      const staying = await startStaying(other, ['/bin/sh', '-c', 'echo on; sleep 30']);
      const [, { record }] = await Promise.all([other.destroy(), staying.drain()]);
      expect(record).toMatchObject({ end: 'killed', reason: 'sandbox_closed' });
    });

    it('when the command ends, not when its daemons close the pipes', async () => {
      const started = performance.now();
      const { record, stdout } = await sh(sandbox, 'sleep 30 & (setsid sh -c "sleep 30 & sleep 30" &) ; echo done');
      expect(record).toMatchObject({ end: 'exited', exit_code: 0 });
      expect(stdout).toBe('done\n');
      expect(performance.now() - started).toBeLessThan(within(5000));
    });

    it('when the command ends, although another command of its sandbox was passed its output', async () => {
      const holder = await startStaying(sandbox, [
        '/usr/bin/python3',
        '-I',
        '-S',
        '-c',
        'import os, socket, sys\nl = socket.socket(socket.AF_UNIX); l.bind("/workspace/passed"); l.listen()\nprint("on", flush=True)\nc, _ = l.accept(); fd = socket.recv_fds(c, 1, 1)[1][0]\nsys.stdin.read(); os.write(fd, b"late")',
      ]);
      const started = performance.now();
      const { stdout, record } = await python(
        sandbox,
        'import socket\nc = socket.socket(socket.AF_UNIX); c.connect("/workspace/passed"); socket.send_fds(c, [b"x"], [1]); print("done")',
        { timeout_ms: within(2000) },
      );
      expect(performance.now() - started).toBeLessThan(within(2000));
      expect([stdout, record.end]).toEqual(['done\n', 'exited']);
      await holder.finish();
    });

    it('with every daemon dead before a deadline is answered', async () => {
      const daemon =
        'import os, signal, sys, time\n' +
        'for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(n, signal.SIG_IGN)\n' +
        'print("started", flush=True)\n' +
        'for _ in range(3):\n' +
        '    if os.fork() == 0:\n' +
        '        os.setsid()\n' +
        '        if os.fork(): os._exit(0)\n' +
        '        while True:\n' +
        '            open("/workspace/beat", "a").write(str(time.time()) + "\\n"); time.sleep(0.005)\n' +
        'time.sleep(30)';
      const { record, stdout } = await python(sandbox, daemon, { timeout_ms: within(500) });
      expect(record.end).toBe('timed_out');
      expect(stdout).toBe('started\n');
      const size = (await (await sandbox.agent()).stat('/workspace/beat')).size;
      expect(size).toBeGreaterThan(0);
      await sleep(150);
      expect((await (await sandbox.agent()).stat('/workspace/beat')).size).toBe(size);
    });
  });

  describe('standard input', () => {
    it('is empty by default', async () => {
      expect((await sh(sandbox, 'wc -c; readlink /proc/self/fd/0')).stdout.split('\n')[0]).toBe('0');
    });

    it('takes bytes and then ends', async () => {
      const bytes = Buffer.from(Array.from({ length: 60_000 }, (_, index) => index % 256));
      const { stdoutBytes } = await run(sandbox, ['/bin/cat'], { stdin: bytes });
      expect(stdoutBytes.equals(bytes)).toBe(true);
    });

    it('takes more bytes than a frame holds', async () => {
      const bytes = Buffer.alloc(3_000_000, 'abcdefg');
      const { stdout } = await run(sandbox, ['/usr/bin/sha256sum'], { stdin: bytes });
      expect(stdout.slice(0, 64)).toBe(createHash('sha256').update(bytes).digest('hex'));
    });

    it('takes a stream, in order, and its end', async () => {
      const staying = await startStaying(sandbox, ['/bin/sh', '-c', 'echo ready; exec cat']);
      for (let index = 0; index < 200; index += 1) await staying.handle.write(Buffer.from(`${index} `));
      const { stdout, record } = await staying.finish();
      expect(stdout).toBe(`ready\n${Array.from({ length: 200 }, (_, index) => `${index} `).join('')}`);
      expect(record).toMatchObject({ end: 'exited', exit_code: 0 });
    });

    it('holds the writer back while the command does not read', async () => {
      const staying = await startStaying(sandbox, [
        '/bin/sh',
        '-c',
        'echo ready; until test -e go; do sleep 0.05; done; rm go; wc -c',
      ]);
      const bytes = Buffer.alloc(1 << 20);
      let written = 0;
      const writing = (async () => {
        for (let index = 0; index < 16; index += 1) {
          await staying.handle.write(bytes);
          written += 1;
        }
      })();
      await sleep(200);
      expect(written).toBeLessThan(16);
      await sh(sandbox, 'touch go');
      await writing;
      expect((await staying.finish()).stdout).toContain(String(16 << 20));
    });

    it('refuses a write after the end', async () => {
      const staying = await startStaying(sandbox, ['/bin/sh', '-c', 'echo ready; exit 3']);
      expect((await staying.drain()).record.exit_code).toBe(3);
      await expect(staying.handle.write(Buffer.from('late'))).rejects.toMatchObject({ code: 'exec_ended' });
    });
  });

  describe('a terminal', () => {
    const tty = { columns: 100, rows: 30 };

    it('is one on all three descriptors, of the size that was asked for', async () => {
      const { stdout } = await python(
        sandbox,
        'import os, sys\nprint([os.isatty(n) for n in range(3)], os.get_terminal_size(), os.ttyname(0) == os.ttyname(2))\nopen("/dev/tty", "w").write("through tty\\n")\nprint(os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp())',
        { tty },
      );
      expect(stdout).toContain('[True, True, True] os.terminal_size(columns=100, lines=30) True');
      expect(stdout).toContain('through tty');
      expect(stdout).toContain('True True');
    });

    it('changes its size and says so', async () => {
      const staying = await startStaying(
        sandbox,
        [
          '/usr/bin/python3',
          '-I',
          '-S',
          '-c',
          'import os, signal, time\ndef changed(*_):\n  os.write(1, b"%d x %d" % tuple(os.get_terminal_size())); os._exit(0)\nsignal.signal(signal.SIGWINCH, changed)\nprint("ready", flush=True)\ntime.sleep(20)',
        ],
        { tty },
      );
      await staying.handle.resize(133, 44);
      expect((await staying.drain()).stdout).toContain('133 x 44');
    });

    it('turns Ctrl-C into an interrupt and Ctrl-D into the end of input', async () => {
      const interrupted = await startStaying(
        sandbox,
        ['/bin/sh', '-c', 'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.05; done'],
        { tty },
      );
      await interrupted.handle.write(Buffer.from('\u0003'));
      const { stdout, record } = await interrupted.drain();
      expect(stdout).toContain('caught');
      expect(record.exit_code).toBe(7);
      const ended = await startStaying(sandbox, ['/bin/sh', '-c', 'echo ready; cat; echo over'], { tty });
      await ended.handle.write(Buffer.from('line\n\u0004'));
      expect((await ended.drain()).stdout).toContain('over');
    });

    it('erases a character with all of its bytes', async () => {
      const read = await startStaying(sandbox, ['/bin/sh', '-c', 'echo ready; head -n 1 | wc -c'], { tty });
      await read.handle.write(Buffer.from('\u00e9\u007fx\n'));
      expect((await read.drain()).stdout).toMatch(/\n2\r\n$/);
    });

    it('has job control', async () => {
      const shell = await startStaying(
        sandbox,
        ['/bin/bash', '--norc', '-i', '-c', 'echo ready; set -m; sleep 30 & jobs; fg'],
        { tty, env: { PS1: '' } },
      );
      await shell.until('sleep 30 &');
      await shell.until('sleep 30\r\n');
      // It names the job before it gives it the terminal.
      await sleep(200);
      await shell.handle.write(Buffer.from('\u0003'));
      const { record, stdout } = await shell.drain();
      expect(stdout).not.toContain('no job control');
      expect(stdout).toMatch(/Running +sleep 30/);
      // The interrupt went to the job in the foreground, so the shell itself went on and ended.
      expect(record).toMatchObject({ end: 'exited', signal: null });
      expect(record.duration_ms).toBeLessThan(25_000);
    });

    it('ends with its command, and its output is complete', async () => {
      const { stdout, record } = await sh(sandbox, 'i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done', {
        tty,
      });
      expect(record.exit_code).toBe(0);
      expect(stdout.endsWith('line 2999\r\n')).toBe(true);
      expect(stdout.split('\r\n').length).toBe(3001);
    });
  });

  describe('signals', () => {
    it('reach the command and its process group', async () => {
      const staying = await startStaying(sandbox, [
        '/bin/sh',
        '-c',
        'trap "echo got; exit 9" USR1; echo ready; while :; do sleep 0.05; done',
      ]);
      await staying.handle.signal('SIGUSR1');
      const { stdout, record } = await staying.drain();
      expect(stdout).toBe('ready\ngot\n');
      expect(record.exit_code).toBe(9);
    });

    it('end it where it does not catch them', async () => {
      const staying = await startStaying(sandbox, ['/bin/sh', '-c', 'echo ready; exec sleep 30']);
      await staying.handle.signal(15);
      expect((await staying.drain()).record).toMatchObject({ end: 'signaled', signal: 'SIGTERM' });
    });
  });

  describe('output', () => {
    it('is byte-exact on both streams, in order, with offsets', async () => {
      const { stdoutBytes, stderr, record } = await python(
        sandbox,
        'import sys\nfor i in range(2000):\n sys.stdout.buffer.write(bytes([i % 256]) * 1000)\n sys.stderr.write("%d\\n" % i)',
      );
      const expected = Buffer.concat(Array.from({ length: 2000 }, (_, index) => Buffer.alloc(1000, index % 256)));
      expect(stdoutBytes.equals(expected)).toBe(true);
      expect(stderr.split('\n').length).toBe(2001);
      expect(record).toMatchObject({ stdout_bytes: 2_000_000, stderr_bytes: Buffer.byteLength(stderr) });
    });

    it.each(['block', 'drop'] as const)(
      'of 200 MB is complete for a reader that is there, with %s',
      async (overflow) => {
        const handle = await sandbox.exec({ argv: ['/usr/bin/head', '-c', '200000000', '/dev/zero'], overflow });
        let bytes = 0;
        let end: ExecEvent | undefined;
        for await (const event of handle) {
          if (event.type === 'output') {
            expect(event.offset).toBe(bytes);
            bytes += event.data.length;
          } else end = event;
        }
        expect(bytes).toBe(200_000_000);
        expect(end).toMatchObject({ type: 'ended', record: { end: 'exited', stdout_bytes: 200_000_000 } });
      },
    );

    it('up to a deadline is in the answer', async () => {
      const { stdout, record } = await python(
        sandbox,
        'import sys, time\nsys.stdout.write("x" * 500000 + "END"); sys.stdout.flush(); time.sleep(30)',
        { timeout_ms: within(700) },
      );
      expect(record.end).toBe('timed_out');
      expect(stdout.length).toBe(500_003);
      expect(stdout.endsWith('END')).toBe(true);
    });

    it('of a reader that stalls stops the command, and a deadline still ends it', async () => {
      const handle = await sandbox.exec({
        argv: ['/bin/cat', '/dev/zero'],
        overflow: 'block',
        timeout_ms: within(800),
      });
      await sleep(within(1200));
      const { record, stdoutBytes } = await collect(handle);
      expect(record.end).toBe('timed_out');
      expect(stdoutBytes.length).toBe(record.stdout_bytes);
      expect(stdoutBytes.length).toBeLessThan(64 << 20);
    });
  });

  describe('refuses', () => {
    it('a command that does not exist and one that is no program', async () => {
      await expect(run(sandbox, ['boxkite-no-such-command'])).rejects.toMatchObject({ code: 'command_not_found' });
      await expect(run(sandbox, ['/usr/bin/boxkite-no-such-command'])).rejects.toMatchObject({
        code: 'command_not_found',
      });
      await expect(run(sandbox, ['/etc/passwd'])).rejects.toMatchObject({ code: 'not_executable' });
      await expect(run(sandbox, ['/usr/bin'])).rejects.toMatchObject({ code: 'not_executable' });
    });

    it('a directory that is not there', async () => {
      await expect(run(sandbox, ['/bin/true'], { cwd: '/workspace/none' })).rejects.toMatchObject({
        code: 'bad_directory',
      });
      await expect(run(sandbox, ['/bin/true'], { cwd: '/etc/passwd' })).rejects.toMatchObject({
        code: 'bad_directory',
      });
    });

    it('a NUL in arguments, environment and directory', async () => {
      await expect(run(sandbox, ['/bin/echo', 'a\0b'])).rejects.toMatchObject({ code: 'invalid_request' });
      await expect(run(sandbox, ['/bin/echo'], { env: { NAME: 'a\0b' } })).rejects.toMatchObject({
        code: 'invalid_request',
      });
      await expect(run(sandbox, ['/bin/echo'], { env: { 'NA=ME': 'x' } })).rejects.toMatchObject({
        code: 'invalid_request',
      });
      await expect(run(sandbox, ['/bin/echo'], { cwd: '/work\0space' })).rejects.toMatchObject({
        code: 'invalid_request',
      });
      await expect(run(sandbox, [])).rejects.toMatchObject({ code: 'invalid_request' });
    });

    it('200 MB of arguments, and runs 100,000 short ones', async () => {
      await expect(
        run(sandbox, ['/bin/true', ...Array.from({ length: 200 }, () => 'x'.repeat(1_000_000))]),
      ).rejects.toMatchObject({ code: 'argument_list_too_long' });
      await expect(run(sandbox, ['/bin/true', 'x'.repeat(300_000)])).rejects.toMatchObject({
        code: 'argument_list_too_long',
      });
      const { stdout } = await python(sandbox, 'import sys; print(len(sys.argv), sys.argv[100000])', {
        args: Array.from({ length: 100_000 }, (_, index) => `a${index}`),
      });
      expect(stdout).toBe('100001 a99999\n');
    });

    it('an abort before the start, and kills on one after it', async () => {
      await expect(sandbox.exec({ argv: ['/bin/true'] }, AbortSignal.abort())).rejects.toMatchObject({
        code: 'aborted',
      });
      const controller = new AbortController();
      const handle = await sandbox.exec({ argv: ['/bin/sleep', '30'] }, controller.signal);
      controller.abort();
      expect((await collect(handle)).record).toMatchObject({ end: 'killed', reason: 'requested' });
    });

    it('what is not known', async () => {
      await expect(runner.client.exec(987_654_321n, { argv: ['/bin/true'] })).rejects.toMatchObject({
        code: 'not_found',
      });
      await expect(runner.client.attach('987654321')).rejects.toMatchObject({ code: 'not_found' });
      await runner.client.closeSandbox(987_654_321n);
      const gone = await runner.create();
      await gone.destroy();
      await expect(gone.exec({ argv: ['/bin/true'] })).rejects.toMatchObject({ code: 'not_found' });
    });
  });

  describe('ceilings of the operator', () => {
    it.each([
      ['workspace-mb', 8, { workspaceMb: 8 }, { workspaceMb: 9 }, 'workspace'],
      ['inodes', 100, { inodes: 100 }, { inodes: 101 }, 'inodes'],
      ['pids', 20, { pids: 20 }, { pids: 21 }, 'pids'],
    ])('%s %i is lifted by no request', async (name, ceiling, within, beyond, field) => {
      const least = { workspaceMb: 8, inodes: 64, pids: 8 };
      await using bounded = await startRunner({ ceilings: { [name]: ceiling } });
      await using works = await bounded.create({ ...least, ...within });
      expect((await sh(works, 'echo works')).stdout).toBe('works\n');
      const refused = { code: 'invalid_request', details: { field } };
      await expect(bounded.create({ ...least, ...beyond })).rejects.toMatchObject(refused);
    });

    it('of memory and CPU hold every sandbox to a limit that is in force, or there is none', async () => {
      await using bounded = await startRunner({ ceilings: { 'memory-mb': 64, 'cpu-millis': 500 } });
      const refused = { code: 'invalid_request' };
      await expect(bounded.create({ memoryMb: 65, cpuMillis: 500 })).rejects.toMatchObject(refused);
      await expect(bounded.create({ memoryMb: 64, cpuMillis: 501 })).rejects.toMatchObject(refused);
      await expect(bounded.create({ memoryMb: 64, cpuMillis: 0 })).rejects.toMatchObject(refused);
      const { layers } = await bounded.client.probe();
      const works = (layer: string) => layers.some(({ name, status }) => name === layer && status === 'works');
      const opening = bounded.create({ memoryMb: 64, cpuMillis: 500 });
      if (works('memory_limit') && works('cpu_limit')) {
        await using sandbox = await opening;
        expect(sandbox.effective.memory.via).not.toBe('none');
        expect(sandbox.effective.cpu.via).not.toBe('none');
      } else await expect(opening).rejects.toMatchObject({ code: 'isolation_unavailable' });
    });
  });

  describe('limits', () => {
    it('of processes bind one command', async () => {
      const source =
        'import os, signal\ncount = 0\nfor _ in range(200):\n    try: pid = os.fork()\n    except OSError: break\n    if pid == 0: signal.pause()\n    count += 1\nprint(count)';
      const { stdout, record } = await python(sandbox, source, { limits: { pids: 20 } });
      expect(Number(stdout)).toBeLessThanOrEqual(20);
      expect(Number(stdout)).toBeGreaterThan(10);
      expect(record.effective.processes.max).toBe(20);
      expect(Number((await python(sandbox, source)).stdout)).toBe(200);
    });

    it('of memory bind one command, or are refused', async () => {
      const source = 'x = bytearray(150 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint("done")';
      if (lane !== 'root') {
        await expect(python(sandbox, source, { limits: { memory_mb: 64 } })).rejects.toMatchObject({
          code: 'isolation_unavailable',
        });
        return;
      }
      const small = await python(sandbox, source, { limits: { memory_mb: 64 } });
      expect(small.record).toMatchObject({ end: 'out_of_memory', exit_code: null });
      expect(small.record.effective.memory.bytes).toBe(64 << 20);
      expect((await python(sandbox, source)).stdout).toBe('done\n');
      const usage = (await python(sandbox, source)).record.usage;
      expect(usage.cpu_ms).toBeGreaterThan(0);
      if (usage.memory_peak_bytes !== null) expect(usage.memory_peak_bytes).toBeGreaterThan(150 << 20);
    });

    it('used up inside (descriptors, inotify, pipes, sockets, threads, keys) harm nothing outside', async () => {
      const { record, stdout } = await python(
        sandbox,
        `
import ctypes, os, socket, threading
libc = ctypes.CDLL(None)
held = []
def fill(make, most=200000):
    count = 0
    try:
        while count < most and (value := make()) is not None: held.append(value); count += 1
    except (OSError, RuntimeError): pass
    return count
def inotify():
    fd = libc.inotify_init()
    return fd if fd >= 0 else None
event = threading.Event()
print(fill(inotify, 5000))
print(fill(os.pipe))
for fd in range(3, 4096):
    try: os.close(fd)
    except OSError: pass
print(fill(lambda: threading.Thread(target=event.wait, daemon=True).start() or 1, 1000))
print(fill(lambda: os.open('/dev/null', 0)), flush=True)
os._exit(0)
`,
      );
      expect(record.exit_code, stdout).toBe(0);
      const counts = stdout.trim().split('\n').map(Number);
      expect(counts[1]).toBeGreaterThan(10);
      expect(counts[2]).toBeLessThanOrEqual(256);
      await using other = await runner.create();
      const { stdout: works } = await python(other, 'import ctypes\nprint(ctypes.CDLL(None).inotify_init() >= 0)');
      expect(works).toBe('True\n');
      expect((await sh(sandbox, 'echo works')).stdout).toBe('works\n');
    });
  });

  it('runs 200 at once in one sandbox', async () => {
    const outcomes = await Promise.all(Array.from({ length: 200 }, (_, index) => sh(sandbox, `echo ${index}`)));
    expect(outcomes.map((outcome) => outcome.stdout.trim()).toSorted((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 200 }, (_, index) => String(index)),
    );
    expect(outcomes.every((outcome) => outcome.record.end === 'exited')).toBe(true);
  });

  it('takes many closes at once, and one while it is running', async () => {
    const other = await runner.create();
    const staying = await startStaying(other, ['/bin/sh', '-c', 'echo on; sleep 30']);
    const closes = Array.from({ length: 20 }, () => runner.client.closeSandbox(other.number));
    await Promise.all([...closes, staying.drain()]);
    expect((await runner.client.list()).sandboxes.some((entry) => entry.sandbox === other.number)).toBe(false);
    await expect(other.exec({ argv: ['/bin/true'] })).rejects.toHaveProperty(
      'code',
      expect.stringMatching(/^(not_found|closing)$/),
    );
  });

  it('has the environment that was given added to the fixed one', async () => {
    const { stdout } = await run(sandbox, ['/usr/bin/env'], {
      env: { GIVEN: 'value with spaces and "quotes"', PATH: '/usr/bin' },
    });
    expect(stdout).toContain('GIVEN=value with spaces and "quotes"\n');
    expect(stdout).toContain('PATH=/usr/bin\n');
    expect(stdout).toContain('HOME=/workspace\n');
    expect((await sh(sandbox, 'pwd', { cwd: '/tmp' })).stdout).toBe('/tmp\n');
    expect((await sh(sandbox, 'mkdir -p sub; pwd', { cwd: '/workspace' })).stdout).toBe('/workspace\n');
  });
});
