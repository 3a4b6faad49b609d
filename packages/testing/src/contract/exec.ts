import { createHash } from 'node:crypto';
import type { ExecRequest, SandboxPort, SandboxProvider } from '@boxkite/protocol';
import { execRecordSchema } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ContractSubject, codeOf, readAll, runIn, shIn } from './subject.ts';

/** Says how many processes it could start, at most a hundred. */
const FORK_TO_THE_LIMIT = `
import os, signal
children = []
try:
    while len(children) < 100:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError:
    pass
print(len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
`;

/** One command from its request to its one end. */
export function execContract(provider: () => SandboxProvider, subject: ContractSubject): void {
  describe('an exec', () => {
    let sandbox: SandboxPort;
    beforeAll(async () => {
      sandbox = await provider().create({ workspace_mb: 64, pids: 64 });
    });
    afterAll(async () => {
      await sandbox.destroy();
    });

    const ends: readonly (readonly [string, ExecRequest, object])[] = [
      ['an exit', { argv: ['/bin/sh', '-c', 'exit 7'] }, { end: 'exited', exit_code: 7, signal: null, reason: null }],
      [
        'a signal',
        { argv: ['/bin/sh', '-c', 'kill -SEGV $$'] },
        { end: 'signaled', exit_code: null, signal: 'SIGSEGV' },
      ],
      ['a deadline', { argv: ['/bin/sleep', '60'], timeout_ms: 150 }, { end: 'timed_out', exit_code: null }],
    ];
    it.each(ends)('ends by %s', async (_name, request, expected) => {
      const { record } = await runIn(sandbox, request);
      expect(record).toMatchObject(expected);
      expect(() => execRecordSchema.parse(record)).not.toThrow();
    });

    it('ends by its memory limit, or is refused where there is none', async () => {
      const request = { argv: ['/usr/bin/python3', '-c', 'x = b"x" * (1 << 30)'], limits: { memory_mb: 64 } };
      if (!subject.memory) {
        await expect(runIn(sandbox, request)).rejects.toMatchObject({ code: 'isolation_unavailable' });
        return;
      }
      expect((await runIn(sandbox, request)).record.end).toBe('out_of_memory');
    });

    it('ends by being killed, with its descendants', async () => {
      const handle = await sandbox.exec({ argv: ['/bin/sh', '-c', '(setsid sleep 600 &); echo up; sleep 600'] });
      await handle.kill();
      expect((await readAll(handle)).record).toMatchObject({ end: 'killed', reason: 'requested' });
    });

    it('ends by an abort, which says so', async () => {
      const abort = new AbortController();
      const handle = await sandbox.exec({ argv: ['/bin/sleep', '600'] }, abort.signal);
      abort.abort();
      expect((await readAll(handle)).record.end).toBe('killed');
      await expect(sandbox.exec({ argv: ['/bin/true'] }, AbortSignal.abort())).rejects.toMatchObject({
        code: 'aborted',
      });
    });

    it('gets a signal by name and by number', async () => {
      for (const signal of ['SIGTERM', 15]) {
        const handle = await sandbox.exec({
          argv: ['/bin/sh', '-c', 'trap "echo caught; exit 3" TERM; echo up; while :; do sleep 0.05; done'],
        });
        const { record, stdout } = await readAll(handle, { said: 'up\n', act: () => handle.signal(signal) });
        expect([record.exit_code, stdout.toString()]).toEqual([3, 'up\ncaught\n']);
      }
    });

    it('gives every byte of both streams, in order', async () => {
      // No ASCII letter and no colon: of three million bytes some would look like a password, which a daemon does not show.
      const { record, stdout, stderr } = await shIn(
        sandbox,
        'LC_ALL=C tr -d A-Za-z: < /dev/urandom | head -c 3000000 | tee random; head -c 200000 random >&2; sha256sum random > sum',
        { overflow: 'block' },
      );
      expect([record.stdout_bytes, record.stderr_bytes]).toEqual([3_000_000, 200_000]);
      const { stdout: sum } = await shIn(sandbox, 'cut -c1-64 sum');
      expect(createHash('sha256').update(stdout).digest('hex')).toBe(sum.toString().trim());
      expect(stderr.equals(stdout.subarray(0, 200_000))).toBe(true);
    });

    it('passes bytes that are no text', async () => {
      const { stdout } = await runIn(sandbox, { argv: ['/usr/bin/printf', '\\377\\000\\n\\200'] });
      expect([...stdout]).toEqual([255, 0, 10, 128]);
    });

    it('reads input that comes with the request, and input that comes later', async () => {
      const input = Buffer.alloc(1_000_000, 'input ');
      const whole = await runIn(sandbox, { argv: ['/usr/bin/sha256sum'], stdin: input });
      expect(whole.stdout.toString().slice(0, 64)).toBe(createHash('sha256').update(input).digest('hex'));
      const handle = await sandbox.exec({ argv: ['/bin/cat'], stdin: 'stream' });
      const reading = readAll(handle);
      for (let part = 0; part < 5; part += 1) await handle.write(Buffer.from(`part ${part}\n`));
      await handle.closeStdin();
      expect((await reading).stdout.toString()).toBe('part 0\npart 1\npart 2\npart 3\npart 4\n');
      expect(['exec_ended', 'stdin_closed']).toContain(await codeOf(handle.write(Buffer.from('x'))));
    });

    it('has an end of file where no input is given', async () => {
      expect((await runIn(sandbox, { argv: ['/bin/cat'] })).record.exit_code).toBe(0);
    });

    it('has a terminal of the size that was asked for, which changes', async () => {
      const handle = await sandbox.exec({
        argv: ['/bin/sh', '-c', 'trap "stty size; exit" WINCH; stty size; while :; do sleep 0.05; done'],
        tty: { columns: 100, rows: 30 },
      });
      const { stdout } = await readAll(handle, { said: '30 100\r\n', act: () => handle.resize(120, 40) });
      expect(stdout.toString()).toBe('30 100\r\n40 120\r\n');
    });

    it('starts in its directory, with its environment and nothing of anybody else’s', async () => {
      const { stdout } = await shIn(sandbox, 'pwd; echo "$EXTRA"; env | wc -l', {
        cwd: '/tmp',
        env: { EXTRA: 'a b' },
      });
      const [directory, extra, count] = stdout.toString().trim().split('\n');
      expect([directory, extra]).toEqual(['/tmp', 'a b']);
      expect(Number(count)).toBeLessThan(13);
    });

    it.each([
      ['command_not_found', { argv: ['no-such-program'] }],
      ['not_executable', { argv: ['/etc/passwd'] }],
      ['bad_directory', { argv: ['/bin/true'], cwd: '/no/such' }],
      ['invalid_request', { argv: ['/bin/echo', 'a\0b'] }],
      ['invalid_request', { argv: [] }],
      ['invalid_request', { argv: ['/bin/true'], timeout_ms: -1 }],
      ['invalid_request', { argv: ['/bin/true'], env: { 'A=B': 'x' } }],
    ] as const)('is refused with %s: %j', async (code, request) => {
      await expect(runIn(sandbox, request)).rejects.toMatchObject({ code });
    });

    it('shares files with the next one, and no process, shared memory or abstract socket', async () => {
      await shIn(sandbox, 'echo kept > kept; (sleep 601 &); echo x > /dev/shm/left');
      const { stdout } = await shIn(sandbox, 'cat kept; ls /dev/shm; cat /proc/[0-9]*/cmdline | tr "\\0" " "');
      expect(stdout.toString()).toContain('kept');
      expect(stdout.toString()).not.toMatch(/left|601/);
    });

    it('is bounded in its processes', async () => {
      const { stdout } = await runIn(sandbox, {
        argv: ['/usr/bin/python3', '-c', FORK_TO_THE_LIMIT],
        limits: { pids: 20 },
      });
      // The first process counts too, and where a limit is of the user, so does PID 1.
      expect(['18\n', '19\n']).toContain(stdout.toString());
    });

    it('runs beside others of its sandbox', async () => {
      const all = Array.from({ length: 16 }, async (_unused, index) => await shIn(sandbox, `sleep 0.1; echo ${index}`));
      expect((await Promise.all(all)).map(({ stdout }) => Number(stdout.toString()))).toEqual(
        all.map((_unused, index) => index),
      );
    });

    it('keeps the first and the last bytes where its output is more than its record keeps, and counts all', async () => {
      const { record, stdout, gaps } = await shIn(
        sandbox,
        'echo first; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo last',
        { limits: { output_bytes: 65_536 } },
      );
      expect(record.stdout_bytes).toBe(3_000_012);
      expect(stdout.subarray(0, 6).toString()).toBe('first\n');
      // Who reads while it runs may get more than is kept.
      if (stdout.length < 3_000_012) expect(gaps).toBeGreaterThan(0);
    });
  });
}
