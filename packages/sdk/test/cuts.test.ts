/** Connections that end at any point: output goes on byte-exact, and nothing is done twice. */
import type { ExecEvent } from '@boxkite/protocol';
import { encodeOutputFrame } from '@boxkite/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../src/sandbox.ts';
import { Sandbox as SandboxClass } from '../src/sandbox.ts';
import { FakeHandle, FakeSandbox, record } from './fake-port.ts';
import type { Hook } from './v1-server.ts';
import { V1Server } from './v1-server.ts';

const STREAMS = ['stdout', 'stderr'] as const;

interface Piece {
  readonly stream: 'stdout' | 'stderr';
  readonly bytes: number;
  readonly gap: boolean;
}

const pieces = fc.array(
  fc.record({
    stream: fc.constantFrom(...STREAMS),
    bytes: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 5000 })),
    gap: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
  }),
  { maxLength: 25 },
);

/** The byte at an offset of a stream. */
function byteAt(stream: string, offset: number): number {
  return (offset * 31 + (stream === 'stdout' ? 7 : 101) + (offset >> 8)) & 0xff;
}

function eventsOf(script: readonly Piece[]): ExecEvent[] {
  const at = { stdout: 0, stderr: 0 };
  const events = script.map(({ stream, bytes, gap }): ExecEvent => {
    const offset = at[stream];
    at[stream] += bytes;
    if (gap) return { type: 'gap', stream, from: offset, to: offset + bytes };
    return {
      type: 'output',
      stream,
      offset,
      data: Uint8Array.from({ length: bytes }, (_, i) => byteAt(stream, offset + i)),
    };
  });
  return [...events, { type: 'ended', record: record({ stdout_bytes: at.stdout, stderr_bytes: at.stderr }) }];
}

/** What a reader knows at the end: every byte or gap once, in order, and the record. */
async function read(events: AsyncIterable<ExecEvent>, expected: readonly ExecEvent[]): Promise<void> {
  const at = { stdout: 0, stderr: 0 };
  const gaps = { stdout: [] as string[], stderr: [] as string[] };
  let ended = 0;
  for await (const event of events) {
    expect(ended).toBe(0);
    if (event.type === 'ended') {
      ended += 1;
      expect(at).toEqual({ stdout: event.record.stdout_bytes, stderr: event.record.stderr_bytes });
      continue;
    }
    const offset = event.type === 'gap' ? event.from : event.offset;
    expect(offset).toBe(at[event.stream]);
    if (event.type === 'gap') {
      gaps[event.stream].push(`${event.from}-${event.to}`);
      at[event.stream] = event.to;
      continue;
    }
    event.data.forEach((byte, index) => {
      if (byte !== byteAt(event.stream, offset + index)) throw new Error(`wrong byte at ${offset + index}`);
    });
    at[event.stream] += event.data.length;
  }
  expect(ended).toBe(1);
  for (const stream of STREAMS) {
    const whole = expected.flatMap((event) =>
      event.type === 'gap' && event.stream === stream ? [`${event.from}-${event.to}`] : [],
    );
    expect(gaps[stream]).toEqual(whole);
  }
}

async function sandboxAt(server: V1Server): Promise<Sandbox> {
  return SandboxClass.create({ url: server.url });
}

test.each([
  ['followed', (sandbox: Sandbox, id: string) => sandbox.execs.output(id)],
  ['attached', (sandbox: Sandbox, id: string) => sandbox.attach(id)],
] as const)(
  'output that is %s over cut connections is whole, in order, without duplicates',
  async (_way, join) => {
    await fc.assert(
      fc.asyncProperty(
        pieces,
        fc.array(fc.integer({ min: 0, max: 3000 }), { maxLength: 4 }),
        fc.constantFrom(1, 7, 1000, 65_536),
        async (script, cuts, piece) => {
          const events = eventsOf(script);
          await using server = await V1Server.start(new FakeSandbox(async () => new FakeHandle(events)));
          server.piece = piece;
          const sandbox = await sandboxAt(server);
          const { exec_id } = await sandbox.execs.start(['x']);
          server.cutAll();
          server.cuts = cuts;
          const source = join(sandbox, exec_id);
          const raw = (async function* (): AsyncGenerator<ExecEvent> {
            for await (const event of source) {
              if (event.type === 'ended') yield { type: 'ended', record: event.result };
              else if (event.type === 'gap') yield event;
              else if (event.data.length > 0) yield event;
            }
          })();
          await read(raw, events);
        },
      ),
      { numRuns: 30 },
    );
  },
  120_000,
);

test('a create is made once, wherever its connection is cut', async () => {
  const fake = new FakeSandbox(async () => new FakeHandle([]));
  for (let cut = 0; cut < 1500; cut += 97) {
    await using server = await V1Server.start(fake);
    server.cuts = [cut];
    const sandbox = await sandboxAt(server);
    expect(sandbox.id).toBe('fake');
    expect(server.created).toBe(1);
    const keys = new Set(server.headers.map((headers) => headers['idempotency-key']));
    expect(keys.size).toBe(1);
    if (cut < 800) expect(server.seen.length).toBe(2);
  }
});

test('a command is started once, wherever its connection is cut', async () => {
  let started = 0;
  const fake = new FakeSandbox(async () => {
    started += 1;
    return new FakeHandle(eventsOf([{ stream: 'stdout', bytes: 3, gap: false }]));
  });
  for (const cut of [0, 1, 50, 200, 400]) {
    await using server = await V1Server.start(fake);
    const sandbox = await sandboxAt(server);
    server.cutAll();
    started = 0;
    server.cuts = [cut];
    expect((await sandbox.stream(['x']).result).stdout_bytes).toBe(3);
    expect(started).toBe(1);
    server.cutAll();
    server.cuts = [cut];
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await sandbox.exec(['x'])).stdout_bytes).toBe(3);
    expect(started).toBe(2);
  }
});

test('a command that was killed with its connection is no result', async () => {
  let release: (() => void) | undefined;
  const fake = new FakeSandbox(async (_request, signal) => {
    const killed = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()));
    return new FakeHandle(
      (async function* (): AsyncGenerator<ExecEvent> {
        release?.();
        await killed;
        yield { type: 'ended', record: record({ end: 'killed', exit_code: null, reason: 'requested' }) };
      })(),
    );
  });
  await using server = await V1Server.start(fake);
  const sandbox = await sandboxAt(server);
  const running = new Promise<void>((resolve) => {
    release = resolve;
  });
  const call = sandbox.exec(['sleep', '60']);
  await running;
  server.cutAll();
  await expect(call).rejects.toMatchObject({ name: 'BoxkiteError', code: 'connection_lost' });
});

test('what may have been done is not sent again', async () => {
  const fake = new FakeSandbox(async () => new FakeHandle([]), {
    ...new FakeSandbox(async () => new FakeHandle([])).files,
  });
  await using server = await V1Server.start(fake);
  const sandbox = await sandboxAt(server);
  server.seen.length = 0;
  server.hook = (_request, response) => {
    response.destroy();
    return true;
  };
  await expect(sandbox.files.move('a', 'b')).rejects.toMatchObject({ code: 'connection_lost' });
  expect(server.seen).toEqual(['POST /v1/sandboxes/fake/files/move']);
  server.seen.length = 0;
  await expect(sandbox.files.stat('a')).rejects.toMatchObject({ code: 'connection_lost' });
  expect(server.seen.length).toBe(5);
});

test('a remove whose answer was lost is done when the path is gone', async () => {
  await using server = await V1Server.start(new FakeSandbox(async () => new FakeHandle([])));
  const sandbox = await sandboxAt(server);
  let calls = 0;
  server.hook = (request, response) => {
    if (request.method !== 'DELETE') return false;
    calls += 1;
    if (calls === 1) response.destroy();
    else response.writeHead(404).end(JSON.stringify({ error: { code: 'file_not_found', message: 'x' } }));
    return true;
  };
  await sandbox.files.remove('a');
  expect(calls).toBe(2);
  await expect(sandbox.files.remove('a')).rejects.toMatchObject({ code: 'file_not_found' });
});

test('a silent server is a cut, which is given up when its patience ends', async () => {
  const { followOutput } = await import('../src/http/follow.ts');
  let opened = 0;
  const times = { silence_ms: 40, patience_ms: 150 };
  const open = async () => {
    opened += 1;
    const { promise, resolve } = Promise.withResolvers<void>();
    const bytes = (async function* (): AsyncGenerator<Uint8Array> {
      yield encodeOutputFrame({ type: 'heartbeat' });
      await promise;
    })();
    return { bytes, discard: resolve };
  };
  const explain = (error: unknown): unknown => error;
  const events = followOutput(open, { follow: true, times, explain });
  await expect(events.next()).rejects.toMatchObject({ phase: 'cut' });
  expect(opened).toBeGreaterThan(1);
});

describe('input that is written behind its command, when a part of it is lost,', () => {
  /** A command that waits for the end of its input, or for its kill. */
  function waiting(): FakeHandle {
    const { promise, resolve } = Promise.withResolvers<ExecEvent>();
    const handle = new FakeHandle(
      (async function* (): AsyncGenerator<ExecEvent> {
        yield await promise;
      })(),
    );
    handle.write = async () => undefined;
    handle.closeStdin = async () => resolve({ type: 'ended', record: record() });
    handle.kill = async () => {
      handle.calls.push('kill');
      resolve({ type: 'ended', record: record({ end: 'killed', exit_code: null, reason: 'requested' }) });
    };
    return handle;
  }

  /** Answers the second piece of input by this, and the kill too where it says so. */
  function losing(server: V1Server, lose: Hook, kill: Hook = () => false): void {
    let pieces = 0;
    server.hook = (request, response, body) => {
      if (request.url?.endsWith('/signal') === true) return kill(request, response, body);
      if (request.url?.endsWith('/input') !== true) return false;
      pieces += 1;
      return pieces === 2 && lose(request, response, body);
    };
  }

  const cut: Hook = (_request, response) => {
    response.destroy();
    return true;
  };
  const stdin = new Uint8Array(5_500_000);
  const ways = [
    ['exec', (sandbox: Sandbox) => sandbox.exec('x', { stdin })],
    ['stream', (sandbox: Sandbox) => sandbox.stream('x', { stdin }).result],
    ['attach', async (sandbox: Sandbox) => sandbox.attach((await sandbox.execs.start('x', { stdin })).exec_id).result],
    [
      'output',
      async (sandbox: Sandbox) => {
        const { exec_id } = await sandbox.execs.start('x', { stdin });
        for await (const event of sandbox.execs.output(exec_id)) void event;
      },
    ],
  ] as const;

  test.each(ways)('kills the command and fails the call: %s', async (_way, run) => {
    const handle = waiting();
    await using server = await V1Server.start(new FakeSandbox(async () => handle));
    const sandbox = await sandboxAt(server);
    losing(server, cut);
    await expect(run(sandbox)).rejects.toMatchObject({ name: 'BoxkiteError', code: 'connection_lost' });
    expect(handle.calls).toEqual(['kill']);
  });

  test.each(ways)('fails the call of a command that can not be killed: %s', async (_way, run) => {
    await using server = await V1Server.start(new FakeSandbox(async () => waiting()));
    const sandbox = await sandboxAt(server);
    const refuse: Hook = (_request, response) => {
      const text = JSON.stringify({ error: { code: 'internal', message: 'no' } });
      response.writeHead(500, { 'content-type': 'application/json' }).end(text);
      return true;
    };
    losing(server, cut, refuse);
    await expect(run(sandbox)).rejects.toMatchObject({ name: 'BoxkiteError', code: 'connection_lost' });
  });

  test.each(['exec_ended', 'stdin_closed'])('is no failure where the command has enough: %s', async (code) => {
    const handle = waiting();
    await using server = await V1Server.start(new FakeSandbox(async () => handle));
    const sandbox = await sandboxAt(server);
    losing(server, (_request, response) => {
      void handle.closeStdin();
      response.writeHead(409, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { code, message: 'enough' } }));
      return true;
    });
    expect(await sandbox.exec('x', { stdin })).toMatchObject({ end: 'exited', exit_code: 0 });
    expect(handle.calls).toEqual([]);
  });
});

test('what is written behind input that was cut off is not sent, nor is an end', async () => {
  const { promise, resolve } = Promise.withResolvers<ExecEvent>();
  const handle = new FakeHandle(
    (async function* (): AsyncGenerator<ExecEvent> {
      yield await promise;
    })(),
  );
  await using server = await V1Server.start(new FakeSandbox(async () => handle));
  const stream = (await sandboxAt(server)).stream('x', { stdin: 'stream' });
  await stream.started;
  let inputs = 0;
  server.hook = (request, response) => {
    if (request.url?.endsWith('/input') !== true) return false;
    inputs += 1;
    if (inputs === 2) response.destroy();
    return inputs === 2;
  };
  const calls = [stream.write('a'), stream.write('b'), stream.write('c'), stream.closeStdin()];
  const outcomes = await Promise.allSettled(calls);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected']);
  for (const call of calls.slice(1)) await expect(call).rejects.toMatchObject({ code: 'connection_lost' });
  expect(handle.calls).toEqual(['write a']);
  // Whoever was told may go on where the command can bear it.
  await stream.write('d');
  await stream.closeStdin();
  expect(handle.calls).toEqual(['write a', 'write d', 'closeStdin']);
  resolve({ type: 'ended', record: record() });
  expect((await stream.result).ok).toBe(true);
});

test.each(['exec_ended', 'stdin_closed'])('an end behind input that nobody takes is no failure: %s', async (code) => {
  const handle = new FakeHandle([{ type: 'ended', record: record() }]);
  await using server = await V1Server.start(new FakeSandbox(async () => handle));
  const stream = (await sandboxAt(server)).stream('x', { stdin: 'stream' });
  await stream.started;
  server.hook = (request, response) => {
    if (request.url?.endsWith('/input') !== true) return false;
    response.writeHead(409, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { code, message: 'enough' } }));
    return true;
  };
  const [write, end] = await Promise.allSettled([stream.write('a'), stream.closeStdin()]);
  expect(write).toMatchObject({ status: 'rejected', reason: { code } });
  expect(end.status).toBe('fulfilled');
  expect((await stream.result).ok).toBe(true);
});
