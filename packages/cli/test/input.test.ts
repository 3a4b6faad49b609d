/** Standard input of a command, when a part of it is lost. */
import { BoxkiteError, BoxkiteWireError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import type { FakeIoOptions } from './support/fake-io.ts';
import { call, FakeIo, services } from './support/fake-io.ts';
import type { FakeExec, FakeSandbox } from './support/fake-server.ts';
import { FakeServer, output } from './support/fake-server.ts';

const LOST = new BoxkiteError('connection_lost', 'the connection ended before the answer');
const ON_TERMINAL = { terminals: [0, 1], stdinEmpty: false } as const;

/** What a server answers. */
function answer(code: string, status = 409): BoxkiteWireError {
  return new BoxkiteWireError(status, { error: { code, message: code, hint: 'h', retryable: false, details: {} } });
}

/** A sandbox whose command says that it runs, and ends at the end of its input or when it is killed. */
function started(): {
  readonly server: FakeServer;
  readonly sandbox: FakeSandbox;
  readonly calls: () => readonly string[];
} {
  const server = new FakeServer();
  const sandbox = server.add('aaaaaaaa-1111-4000-8000-000000000000', { label: 'box' });
  server.script = async function* (exec: FakeExec) {
    yield output('up\n');
    while (!exec.calls.some((each) => ['closeStdin', 'kill', 'end'].includes(each))) await exec.heard();
    yield exec.calls.includes('kill')
      ? exec.record({ end: 'killed', exit_code: null, reason: 'requested' })
      : exec.record();
  };
  return { server, sandbox, calls: () => sandbox.all[0]?.calls ?? [] };
}

/** Ends the command by itself, soon. */
function endSoon(sandbox: FakeSandbox): void {
  setImmediate(() => sandbox.all[0]?.hear('end'));
}

/** Fails the second write by this. */
function failWrite(sandbox: FakeSandbox, failure: Error, then: (sandbox: FakeSandbox) => void = () => undefined): void {
  const write = sandbox.execs.write.bind(sandbox.execs);
  let writes = 0;
  Object.assign(sandbox.execs, {
    write: async (id: string, data: Uint8Array) => {
      writes += 1;
      if (writes === 2) {
        then(sandbox);
        throw failure;
      }
      await write(id, data);
    },
  });
}

/** A process whose input comes in two pieces. */
function inPieces(sandbox: FakeSandbox, options: FakeIoOptions = { stdinEmpty: false }): FakeIo {
  const io = new FakeIo(options);
  const write = sandbox.execs.write.bind(sandbox.execs);
  Object.assign(sandbox.execs, {
    write: async (id: string, data: Uint8Array) => {
      await write(id, data);
      if (!io.input.writableEnded) io.input.end('two');
    },
  });
  io.input.write('one');
  return io;
}

test.each([
  ['cut off', LOST, 1],
  ['refused', answer('state_unavailable', 503), 1],
])('a command whose input is %s is killed, and gets no end of it', async (_how, failure, status) => {
  const { server, sandbox, calls } = started();
  failWrite(sandbox, failure);
  const io = inPieces(sandbox);
  const outcome = await call(['exec', 'box', '--', 'tar', 'x'], services(server), io);
  expect(outcome).toMatchObject({ status, out: 'up\n' });
  expect(outcome.err).toMatch(new RegExp(`\\(${'code' in failure ? failure.code : ''}\\)\nhint: .+\n$`));
  expect(calls()).toEqual(['write', 'kill']);
});

test('the end of a command that can not be killed is not waited for', async () => {
  const { server, sandbox, calls } = started();
  failWrite(sandbox, LOST);
  Object.assign(sandbox.execs, {
    kill: async () => {
      throw new BoxkiteError('daemon_unreachable', 'nobody answers');
    },
  });
  const io = inPieces(sandbox);
  const { status, err } = await call(['exec', 'box', '--', 'tar', 'x'], services(server), io);
  expect(status).toBe(1);
  expect(err).toContain('(connection_lost)');
  expect(calls()).toEqual(['write']);
});

test('a command that has ended meanwhile has its own end', async () => {
  const { server, sandbox } = started();
  failWrite(sandbox, LOST);
  Object.assign(sandbox.execs, {
    kill: async (id: string) => {
      sandbox.find(id).hear('end');
      throw answer('exec_ended');
    },
  });
  const io = inPieces(sandbox);
  expect(await call(['exec', 'box', '--', 'x'], services(server), io)).toEqual({ status: 0, out: 'up\n', err: '' });
});

test.each(['stdin_closed', 'exec_ended'])('a server that says %s is no fault', async (code) => {
  const { server, sandbox, calls } = started();
  failWrite(sandbox, answer(code), endSoon);
  const io = inPieces(sandbox);
  expect(await call(['exec', 'box', '--', 'x'], services(server), io)).toEqual({ status: 0, out: 'up\n', err: '' });
  expect(calls()).toEqual(['write', 'end']);
});

test('with --json the one object is what went wrong', async () => {
  const { server, sandbox } = started();
  failWrite(sandbox, LOST);
  const io = inPieces(sandbox);
  const { out } = await call(['exec', '--json', 'box', '--', 'tar', 'x'], services(server), io);
  expect(JSON.parse(out)).toMatchObject({ error: { code: 'connection_lost' } });
});

test.each(['EISDIR', 'EIO'])('a command whose source of input fails by %s is killed', async (code) => {
  const { server, calls } = started();
  const io = new FakeIo({ stdinEmpty: false });
  io.input.write('one');
  io.output.once('data', () => io.input.destroy(Object.assign(new Error(code), { code })));
  const { status, err } = await call(['exec', 'box', '--', 'tar', 'x'], services(server), io);
  expect(status).toBe(2);
  expect(err).toContain(`standard input can't be read: ${code} (invalid_request)`);
  expect(calls().at(-1)).toBe('kill');
  expect(calls()).not.toContain('closeStdin');
});

test('a terminal that hangs up ends nothing by itself', async () => {
  const { server, sandbox, calls } = started();
  const io = new FakeIo(ON_TERMINAL);
  io.output.once('data', () => io.input.destroy(Object.assign(new Error('EIO'), { code: 'EIO' })));
  io.input.once('close', () => endSoon(sandbox));
  expect((await call(['exec', 'box', '--', 'sh'], services(server), io)).status).toBe(0);
  expect(calls()).toEqual(['end']);
});

test('a key that is lost on its way to a terminal leaves what runs there', async () => {
  const { server, sandbox, calls } = started();
  failWrite(sandbox, LOST);
  const io = inPieces(sandbox, ON_TERMINAL);
  expect((await call(['exec', 'box', '--', 'sh'], services(server), io)).status).toBe(0);
  expect(calls()).toEqual(['write', 'closeStdin']);
});
