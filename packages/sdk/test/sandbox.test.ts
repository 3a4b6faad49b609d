import { BoxkiteError } from '@boxkite/protocol';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { CommandFailedError } from '../src/errors.ts';
import { shellStatus } from '../src/result.ts';
import { Sandbox } from '../src/sandbox.ts';
import { FakeHandle, FakeProvider, FakeSandbox, record, script } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const open: V1Server[] = [];

afterEach(async () => {
  for (const server of open.splice(0)) await server[Symbol.asyncDispose]();
});

/** The same calls over the port itself, and over `/v1`. */
const ways = {
  port: async (fake: FakeSandbox): Promise<Sandbox> => Sandbox.create({ provider: new FakeProvider(fake) }),
  http: async (fake: FakeSandbox): Promise<Sandbox> => {
    const server = await V1Server.start(fake);
    open.push(server);
    return Sandbox.create({ url: server.url });
  },
};

test('create passes the spec on without what is the SDK’s own', async () => {
  const provider = new FakeProvider(new FakeSandbox(async () => new FakeHandle([])));
  await Sandbox.create({ provider, memory_mb: 64, timeout_ms: 1000, signal: new AbortController().signal });
  expect(provider.specs).toEqual([{ memory_mb: 64 }]);
});

test('an option that a call does not have is refused, and nothing is done', async () => {
  const slip = (name: string): object => ({ [name]: 5 });
  const fake = new FakeSandbox(async () => new FakeHandle(script([])));
  const provider = new FakeProvider(fake);
  await expect(Sandbox.create({ provider, ...slip('memory') })).rejects.toMatchObject({
    code: 'invalid_request',
    message: 'create has no option memory',
    details: { field: 'memory' },
  });
  expect(provider.specs).toEqual([]);
  const sandbox = await Sandbox.create({ provider });
  await expect(sandbox.exec('x', slip('timeout'))).rejects.toThrow('exec has no option timeout');
  await expect(sandbox.exec('x', { limits: slip('memory') })).rejects.toThrow('limits has no option memory');
  await expect(sandbox.exec('x', slip('__proto__x'))).rejects.toThrow(/no option/);
  expect(() => sandbox.stream('x', slip('check'))).toThrow('stream has no option check');
  await expect(sandbox.execs.start('x', slip('max_output_bytes'))).rejects.toThrow(/^start has no option/);
  expect(fake.requests).toEqual([]);
});

describe.each(Object.entries(ways))('over %s', (_way, sandboxOf) => {
  test('a string is for the shell, an array is not', async () => {
    const fake = new FakeSandbox(async () => new FakeHandle(script([])));
    const sandbox = await sandboxOf(fake);
    await sandbox.exec('echo $HOME');
    await sandbox.exec(['echo', '$HOME'], { stdin: 'text', cwd: 'sub', env: { A: '1' }, timeout_ms: 5 });
    expect(fake.requests[0]?.argv).toEqual(['/bin/sh', '-c', 'echo $HOME']);
    expect(fake.requests[1]).toMatchObject({
      argv: ['echo', '$HOME'],
      stdin: bytes('text'),
      cwd: 'sub',
      env: { A: '1' },
      timeout_ms: 5,
    });
  });

  test('await using destroys it', async () => {
    const fake = new FakeSandbox(async () => new FakeHandle(script([])));
    {
      await using sandbox = await sandboxOf(fake);
      expect(sandbox.id).toBe('fake');
    }
    expect(fake.destroyed).toBe(1);
  });

  test('text is right however its bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'grapheme', maxLength: 60 }),
        fc.array(fc.nat(8), { minLength: 1, maxLength: 20 }),
        async (text, cuts) => {
          const whole = bytes(text);
          const pieces: Uint8Array[] = [];
          for (let at = 0, index = 0; at < whole.length; index += 1) {
            const size = Math.max(1, cuts[index % cuts.length] ?? 1);
            pieces.push(whole.subarray(at, at + size));
            at += size;
          }
          const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle(script(pieces))));
          let streamed = '';
          for await (const event of sandbox.stream('x')) if (event.type === 'output') streamed += event.text;
          expect(streamed).toBe(text);
          expect((await sandbox.exec('x')).stdout).toBe(text);
        },
      ),
      { numRuns: 100 },
    );
  });

  test('a character that is cut off by the end or a gap is shown as U+FFFD', async () => {
    const cut = bytes('é').subarray(0, 1);
    const events = [
      { type: 'output', stream: 'stdout', offset: 0, data: cut },
      { type: 'gap', stream: 'stdout', from: 1, to: 9 },
      { type: 'output', stream: 'stdout', offset: 9, data: bytes('é') },
      { type: 'output', stream: 'stdout', offset: 11, data: cut },
      { type: 'ended', record: record({ stdout_bytes: 12 }) },
    ] as const;
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle(events)));
    const seen: string[] = [];
    for await (const event of sandbox.stream('x')) seen.push(event.type === 'output' ? event.text : event.type);
    expect(seen).toEqual(['', '\ufffd', 'gap', 'é', '', '\ufffd', 'ended']);
  });

  test('a result has the record, both forms of output and what a shell would say', async () => {
    const end = record({ end: 'signaled', exit_code: null, signal: 'SIGSEGV' });
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle(script([bytes('out')], end))));
    const result = await sandbox.exec('x');
    expect(result).toMatchObject({
      stdout: 'out',
      stderr: '',
      ok: false,
      exitCode: 139,
      end: 'signaled',
      signal: 'SIGSEGV',
      stdout_truncated: false,
    });
    expect(result.raw.stdout).toEqual(bytes('out'));
  });

  test('more output than the cap keeps its ends and says so', async () => {
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle(script([bytes('0123456789')]))));
    const result = await sandbox.exec('x', { max_output_bytes: 4 });
    expect(result).toMatchObject({ stdout: '0189', stdout_truncated: true, stdout_bytes: 10, stderr_truncated: false });
  });

  test.each([
    [{ limits: { output_bytes: 4 } }, '0189'],
    [{ limits: { output_bytes: 4 }, max_output_bytes: 6 }, '0189'],
    [{ limits: { output_bytes: 6 }, max_output_bytes: 4 }, '0189'],
  ])('the smaller cap counts: %j', async (options, stdout) => {
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle(script([bytes('0123456789')]))));
    expect(await sandbox.exec('x', options)).toMatchObject({ stdout, stdout_truncated: true, stdout_bytes: 10 });
  });

  test('check turns a failure into an error that carries the result', async () => {
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle(script([], record({ exit_code: 3 })))));
    const error = await sandbox.exec('x', { check: true }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CommandFailedError);
    expect(error).toMatchObject({
      code: 'command_failed',
      result: { exit_code: 3 },
      message: 'the command ended with exit status 3',
    });
  });

  test.each([
    [record({ exit_code: 7 }), 7],
    [record({ end: 'timed_out', exit_code: null }), 124],
    [record({ end: 'out_of_memory', exit_code: null }), 137],
    [record({ end: 'killed', exit_code: null }), 137],
    [record({ end: 'signaled', exit_code: null, signal: 'SIGTERM' }), 143],
    [record({ end: 'signaled', exit_code: null, signal: 'SIGRTMIN+2' }), 164],
  ])('%o is status %i in a shell', (end, status) => {
    expect(shellStatus(end)).toBe(status);
  });

  test('leaving the loop over a stream kills the command and fails its result', async () => {
    const handle = new FakeHandle(script([bytes('a'), bytes('b')]));
    const sandbox = await sandboxOf(new FakeSandbox(async () => handle));
    const stream = sandbox.stream('x');
    for await (const event of stream) {
      expect(event.type).toBe('output');
      break;
    }
    expect(handle.calls).toEqual(['kill']);
    await expect(stream.result).rejects.toMatchObject({ code: 'aborted' });
  });

  test('the result of a stream comes without a loop, and the methods reach the command', async () => {
    const handle = new FakeHandle(script([bytes('a')]));
    const sandbox = await sandboxOf(new FakeSandbox(async () => handle));
    const stream = sandbox.stream(['x'], { stdin: 'stream', tty: { columns: 80, rows: 24 } });
    await stream.write('hé');
    await stream.closeStdin();
    await stream.signal('SIGINT');
    await stream.resize(100, 30);
    expect(await stream.started).toBe('1');
    expect(await stream.result).toMatchObject({ ok: true, exitCode: 0, stdout_bytes: 1 });
    expect(handle.calls).toEqual(['write hé', 'closeStdin', 'signal SIGINT', 'resize 100x30']);
    expect(() => stream[Symbol.asyncIterator]()).toThrow(TypeError);
  });

  test('a stream that can not start fails where it is used, and nowhere else', async () => {
    const failing = new FakeSandbox(async () => {
      throw new BoxkiteError('command_not_found', 'there is no x');
    });
    const sandbox = await sandboxOf(failing);
    await expect(sandbox.exec(['x'])).rejects.toMatchObject({ code: 'command_not_found' });
    const stream = sandbox.stream(['x']);
    await expect(stream.result).rejects.toMatchObject({ code: 'command_not_found' });
    await expect(stream.write('')).rejects.toMatchObject({ code: 'command_not_found' });
  });

  test('an abort fails the call once the command has ended', async () => {
    const stop = new AbortController();
    const answer = async (): Promise<FakeHandle> => {
      stop.abort(new Error('enough'));
      return new FakeHandle(script([], record({ end: 'killed', exit_code: null })));
    };
    const sandbox = await sandboxOf(new FakeSandbox(answer));
    await expect(sandbox.exec('x', { signal: stop.signal })).rejects.toMatchObject({
      code: 'aborted',
      cause: { message: 'enough' },
    });
    await expect(sandbox.stream('x', { signal: stop.signal }).result).rejects.toMatchObject({ code: 'aborted' });
  });

  test.each([
    [[], 'a command is a string'],
    [['a', 3], 'argument 1'],
  ])('the command %j is refused', async (command, message) => {
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle([])));
    await expect(sandbox.exec(command as string[])).rejects.toThrow(message);
  });

  test.each([0, -1, Number.NaN, 1e12])('a time limit of %s is refused', async (timeout_ms) => {
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle([])));
    await expect(sandbox.exec('x', { timeout_ms })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'timeout_ms' },
    });
  });

  test('a deadline on a file call is a timeout, an abort is not', async () => {
    const never: FakeSandbox['files'] = {
      ...new FakeSandbox(async () => new FakeHandle([])).files,
      stat: (_path, signal) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () =>
            reject(new BoxkiteError('aborted', 'cancelled', { cause: signal.reason })),
          );
        }),
    };
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle([]), never));
    await expect(sandbox.files.stat('x', { timeout_ms: 5 })).rejects.toMatchObject({ code: 'timeout' });
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 5);
    await expect(sandbox.files.stat('x', { signal: stop.signal, timeout_ms: 10_000 })).rejects.toMatchObject({
      code: 'aborted',
    });
  });

  test('a file larger than the cap is refused while it is read', async () => {
    let given = 0;
    const endless: FakeSandbox['files'] = {
      ...new FakeSandbox(async () => new FakeHandle([])).files,
      read: async function* () {
        for (;;) {
          given += 1;
          yield new Uint8Array(1000);
        }
      },
    };
    const sandbox = await sandboxOf(new FakeSandbox(async () => new FakeHandle([]), endless));
    await expect(sandbox.files.read('x', { max_bytes: 10_500 })).rejects.toMatchObject({ code: 'file_too_large' });
    // Beyond the cap there is only what buffers between the two hold.
    expect(given).toBeLessThan(2000);
  });
});
