import { type ExecEvent, encodeAttachMessage, OutputFrameDecoder, v1 } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { TestDaemon, until } from './harness.ts';

let daemon: TestDaemon;
let id: string;
let path: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  id = await daemon.sandbox();
  path = `/v1/sandboxes/${id}`;
});
afterAll(() => daemon.close());

const run = (body: object) => daemon.ok(v1.execAnswer, 200, 'POST', `${path}/exec`, { body });
const fakeExecs = () => {
  const found = daemon.substrate.find(id);
  if (found === undefined) throw new Error('the sandbox does not run');
  return found.execs;
};

describe('POST exec', () => {
  it('answers with output and record', async () => {
    expect(await run({ command: 'echo hello world' })).toMatchObject({
      exit_code: 0,
      exit_status: 0,
      stdout: 'hello world\n',
      stderr: '',
      end: 'exited',
      stdout_truncated: false,
    });
    expect(await run({ argv: ['echo', 'a b'] })).toMatchObject({ stdout: 'a b\n' });
    expect(await run({ command: 'false' })).toMatchObject({ exit_code: 1 });
  });

  it('gives bytes that are no UTF-8 as they are, and only those', async () => {
    const answer = await run({ command: 'binary' });
    expect(answer).toMatchObject({ exit_code: 3, stdout: '\u{fffd}A', stdout_base64: '/0E=', stderr: 'é' });
    expect('stderr_base64' in answer).toBe(false);
  });

  it('feeds standard input as text and as bytes', async () => {
    expect(await run({ command: 'cat', stdin: 'é' })).toMatchObject({ stdout: 'é' });
    expect(await run({ command: 'cat', stdin_base64: '/0E=' })).toMatchObject({ stdout_base64: '/0E=' });
  });

  it('ends at the time limit', async () => {
    expect(await run({ command: 'hang', timeout: 0.05 })).toMatchObject({
      exit_code: 124,
      exit_status: null,
      end: 'timed_out',
    });
  });

  it('kills what a client has left', async () => {
    const leaver = new AbortController();
    const call = daemon.call('POST', `${path}/exec`, { body: { command: 'hang' }, signal: leaver.signal });
    call.catch(() => undefined);
    await until(() => fakeExecs().running === 1);
    leaver.abort();
    await until(() => fakeExecs().running === 0);
    expect([...fakeExecs().all.values()].at(-1)?.record).toMatchObject({ end: 'killed', reason: 'requested' });
  });

  it.each([
    [{}, 422, 'invalid_request'],
    [{ command: 'a', argv: ['b'] }, 422, 'invalid_request'],
    [{ command: 'nope' }, 422, 'command_not_found'],
    [{ command: 'true', timeout: -1 }, 422, 'invalid_request'],
    [{ command: 'true', timeout: v1.maxExecTimeoutSeconds + 1 }, 422, 'invalid_request'],
    [{ command: 'true', env: { A: 'hidden\0value' } }, 422, 'invalid_request'],
  ])('refuses %j', async (body, status, code) => {
    const refused = await daemon.refused(status, code, 'POST', `${path}/exec`, { body });
    expect(refused.text).not.toContain('hidden');
  });
});

describe('an exec that stays', () => {
  it('is started, fed, looked at and ended', async () => {
    const eid = await daemon.exec(id, { command: 'cat', stdin_open: true });
    const one = `${path}/execs/${eid}`;
    expect(await daemon.ok(v1.execSummary, 200, 'GET', one)).toMatchObject({ state: 'running', record: null });
    const bytes = Buffer.from([0, 255, 10]);
    expect(await daemon.ok(v1.inputAnswer, 200, 'POST', `${one}/input`, { body: bytes })).toEqual({ bytes_written: 3 });
    const typed = { 'content-type': 'application/json' };
    await daemon.ok(v1.inputAnswer, 200, 'POST', `${one}/input`, { body: '{broken', headers: typed });
    expect((await daemon.call('POST', `${one}/close-stdin`)).status).toBe(204);
    await until(async () => (await daemon.call('GET', one)).json.state === 'ended');
    const raw = await daemon.call('GET', `${one}/output?stream=stdout`);
    expect([...raw.bytes]).toEqual([...bytes, ...Buffer.from('{broken')]);
    expect(raw.headers['x-boxkite-offset']).toBe('0');
    await daemon.refused(409, 'exec_ended', 'POST', `${one}/input`, { body: 'x' });
    const { execs } = await daemon.ok(v1.execList, 200, 'GET', `${path}/execs`);
    expect(execs.map(({ exec_id }) => exec_id)).toContain(eid);
  });

  it('gets signals, sizes and its end', async () => {
    const eid = await daemon.exec(id, { command: 'hang', tty: { columns: 80, rows: 24 } });
    const one = `${path}/execs/${eid}`;
    expect((await daemon.call('POST', `${one}/resize`, { body: { columns: 100, rows: 30 } })).status).toBe(204);
    expect((await daemon.call('POST', `${one}/signal`, { body: { signal: 'SIGINT' } })).status).toBe(204);
    expect(fakeExecs().all.get(eid)?.events).toEqual(['100x30', 'SIGINT']);
    await daemon.refused(422, 'invalid_request', 'POST', `${one}/signal`, { body: {} });
    expect((await daemon.call('POST', `${one}/signal`, { body: { all: true } })).status).toBe(204);
    await until(async () => (await daemon.call('GET', one)).json.record?.end === 'killed');
    await daemon.refused(404, 'not_found', 'GET', `${path}/execs/none`);
  });
});

function decoded(bytes: Uint8Array) {
  const decoder = new OutputFrameDecoder();
  const frames = decoder.push(bytes);
  decoder.end();
  return frames;
}

function textOf(frames: readonly { type: string }[], stream: string): string {
  return (frames as ExecEvent[])
    .flatMap((frame) =>
      frame.type === 'output' && frame.stream === stream ? [Buffer.from(frame.data).toString()] : [],
    )
    .join('');
}

describe('output', () => {
  it('comes as frames, from any offsets, with gaps and the end', async () => {
    const eid = await daemon.exec(id, { command: 'echo 0123456789' });
    await until(async () => (await daemon.call('GET', `${path}/execs/${eid}`)).json.state === 'ended');
    const output = `${path}/execs/${eid}/output`;
    const headers = { accept: v1.outputMediaType };
    const whole = await daemon.call('GET', output, { headers });
    expect(whole.headers['content-type']).toBe(v1.outputMediaType);
    expect(textOf(decoded(whole.bytes), 'stdout')).toBe('0123456789\n');
    const later = decoded((await daemon.call('GET', `${output}?stdout_offset=8`, { headers })).bytes);
    expect(later).toMatchObject([
      { type: 'output', offset: 8 },
      { type: 'ended', record: { exit_code: 0 } },
    ]);
    fakeExecs().drop(eid, 'stdout', 4);
    const gap = decoded((await daemon.call('GET', `${output}?stream=stdout&offset=2`, { headers })).bytes);
    expect(gap[0]).toEqual({ type: 'gap', stream: 'stdout', from: 2, to: 4 });
    const raw = await daemon.call('GET', `${output}?stream=stdout`);
    expect([raw.text, raw.headers['x-boxkite-offset']]).toEqual(['456789\n', '4']);
    await daemon.refused(404, 'not_found', 'GET', `${path}/execs/none/output`, { headers });
    await daemon.refused(422, 'invalid_request', 'GET', output);
    await daemon.refused(422, 'invalid_request', 'GET', `${output}?offset=1`, { headers });
  });

  it('is followed as it comes, and a reader that leaves changes nothing', async () => {
    const eid = await daemon.exec(id, { command: 'cat', stdin_open: true });
    const one = `${path}/execs/${eid}`;
    const got: Buffer[] = [];
    const request = daemon.begin('GET', `${one}/output`, { headers: { accept: v1.outputMediaType } }, (response) => {
      response.on('data', (part: Buffer) => got.push(part));
      response.on('error', () => undefined);
    });
    request.on('error', () => undefined);
    await daemon.call('POST', `${one}/input`, { body: 'one' });
    await until(() => Buffer.concat(got).includes('one'));
    request.destroy();
    await daemon.call('POST', `${one}/input`, { body: 'two' });
    expect((await daemon.call('GET', one)).json.state).toBe('running');
    await daemon.call('POST', `${one}/close-stdin`);
    const rest = await daemon.call('GET', `${one}/output?stdout_offset=3`, { headers: { accept: v1.outputMediaType } });
    expect(textOf(decoded(rest.bytes), 'stdout')).toBe('two');
  });

  it('comes as server-sent events that go on after the last one', async () => {
    const eid = await daemon.exec(id, { command: 'binary' });
    const output = `${path}/execs/${eid}/output`;
    const headers = { accept: 'text/event-stream' };
    const events = (await daemon.call('GET', output, { headers })).text.trim().split('\n\n');
    expect(events).toHaveLength(3);
    const data = events.map((event): unknown => JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? ''));
    expect(data).toMatchObject([
      { type: 'output', stream: 'stdout', offset: 0, data_base64: '/0E=' },
      { type: 'output', stream: 'stderr', offset: 0, data: 'é' },
      { type: 'exit', end: 'exited', exit_code: 3 },
    ]);
    const last = /^id: (.*)$/m.exec(events[0] ?? '')?.[1] ?? '';
    expect(last).toBe('2-0');
    const resumed = await daemon.call('GET', output, { headers: { ...headers, 'last-event-id': last } });
    expect(resumed.text).not.toContain('data_base64');
    expect(resumed.text).toContain('é');
  });

  it('of a reader that does not read waits, and is whole when it does', async () => {
    const size = 32 * 1024 * 1024;
    const eid = await daemon.exec(id, { command: `bytes ${size}` });
    await until(async () => (await daemon.call('GET', `${path}/execs/${eid}`)).json.state === 'ended');
    const { promise, resolve } = Promise.withResolvers<number>();
    daemon.begin('GET', `${path}/execs/${eid}/output?stream=stdout`, {}, (response) => {
      let bytes = 0;
      response.pause();
      setTimeout(() => {
        response.on('data', (part: Buffer) => {
          bytes += part.length;
        });
        response.on('end', () => resolve(bytes));
        response.resume();
      }, 200);
    });
    expect(await promise).toBe(size);
  });
});

describe('attach', () => {
  function attach(eid: string, query = '', protocols = [v1.attachProtocol, `bearer.${daemon.key}`]) {
    const socket = new WebSocket(`ws://127.0.0.1:${daemon.port}${path}/execs/${eid}/attach${query}`, protocols);
    const frames: ReturnType<typeof decoded>[number][] = [];
    const decoder = new OutputFrameDecoder();
    socket.on('message', (data: Buffer) => frames.push(...decoder.push(data)));
    const closed = new Promise<number>((resolve) => socket.on('close', resolve));
    const open = new Promise<void>((resolve, reject) => {
      socket.on('open', resolve);
      socket.on('error', reject);
    });
    return { socket, frames, closed, open };
  }

  it('carries input, sizes, signals and output, and ends with the command', async () => {
    const eid = await daemon.exec(id, { command: 'cat', stdin_open: true });
    const { socket, frames, closed, open } = attach(eid);
    await open;
    expect(socket.protocol).toBe(v1.attachProtocol);
    socket.send(encodeAttachMessage({ type: 'resize', columns: 90, rows: 20 }));
    socket.send(encodeAttachMessage({ type: 'stdin', data: Buffer.from('typed') }));
    socket.send(encodeAttachMessage({ type: 'close_stdin' }));
    expect(await closed).toBe(1000);
    expect(textOf(frames, 'stdout')).toBe('typed');
    expect(frames.at(-1)).toMatchObject({ type: 'ended', record: { exit_code: 0 } });
    expect(fakeExecs().all.get(eid)?.events).toContain('90x20');
  });

  it('answers what can not be done by an error, and goes on', async () => {
    const eid = await daemon.exec(id, { command: 'hang' });
    const { socket, frames, closed, open } = attach(eid);
    await open;
    socket.send(Uint8Array.of(99));
    socket.send('text');
    socket.send(encodeAttachMessage({ type: 'stdin', data: Buffer.from('x') }));
    await until(() => frames.length === 3);
    expect(frames.map((frame) => (frame.type === 'error' ? frame.error.error.code : frame.type))).toEqual([
      'invalid_request',
      'invalid_request',
      'stdin_closed',
    ]);
    socket.send(encodeAttachMessage({ type: 'kill' }));
    expect(await closed).toBe(1000);
    expect(frames.at(-1)).toMatchObject({ type: 'ended', record: { end: 'killed' } });
  });

  it('is not held up by input that is not read, and ends one that floods it with nonsense', async () => {
    const eid = await daemon.exec(id, { command: 'cat', stdin_open: true });
    fakeExecs().write = () => new Promise(() => undefined);
    try {
      const { socket, open } = attach(eid);
      await open;
      for (let n = 0; n < 20; n += 1) {
        socket.send(encodeAttachMessage({ type: 'stdin', data: Buffer.alloc(10_000) }));
      }
      socket.send(encodeAttachMessage({ type: 'signal', signal: 'SIGINT' }));
      await until(() => fakeExecs().all.get(eid)?.events.includes('SIGINT') === true);
      socket.terminate();
    } finally {
      Reflect.deleteProperty(fakeExecs(), 'write');
    }
    const flood = attach(eid);
    await flood.open;
    flood.socket.pause();
    const sending = setInterval(() => {
      for (let n = 0; n < 2000 && flood.socket.readyState === flood.socket.OPEN; n += 1) {
        flood.socket.send(Uint8Array.of(99));
      }
    }, 1);
    await until(() => flood.socket.readyState !== flood.socket.OPEN || flood.socket.bufferedAmount > 4e6, 20_000);
    clearInterval(sending);
    flood.socket.resume();
    await flood.closed;
    expect((await daemon.call('GET', '/health')).status).toBe(200);
  });

  it('sends no more than a window beyond what was acknowledged', async () => {
    const size = 24 * 1024 * 1024;
    const eid = await daemon.exec(id, { command: `bytes ${size}` });
    const { socket, frames, closed, open } = attach(eid);
    await open;
    const taken = () => frames.reduce((sum, frame) => sum + (frame.type === 'output' ? frame.data.length : 0), 0);
    socket.send(encodeAttachMessage({ type: 'acknowledge', stdout: 0, stderr: 0 }));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const stalled = taken();
    await new Promise((resolve) => setTimeout(resolve, 200));
    // What was sent before the first acknowledgement arrived is beyond it.
    if (stalled < size) {
      expect(taken()).toBe(stalled);
      const timer = setInterval(
        () => socket.send(encodeAttachMessage({ type: 'acknowledge', stdout: taken(), stderr: 0 })),
        5,
      );
      await closed;
      clearInterval(timer);
    } else await closed;
    expect(taken()).toBe(size);
  });

  it('ends with its key, as a followed output does', async () => {
    const made = v1.createdKey.parse(
      (await daemon.call('POST', '/v1/api-keys', { body: { name: 'short', account: 'local' } })).json,
    );
    const eid = await daemon.exec(id, { command: 'hang' });
    const attached = new WebSocket(`ws://127.0.0.1:${daemon.port}${path}/execs/${eid}/attach`, [
      v1.attachProtocol,
      `bearer.${made.key}`,
    ]);
    const left = new Promise<void>((resolve) => attached.addEventListener('close', () => resolve()));
    await new Promise<void>((resolve) => attached.addEventListener('open', () => resolve()));
    const began = Promise.withResolvers<void>();
    const cut = Promise.withResolvers<void>();
    const options = { key: made.key, headers: { accept: 'text/event-stream' } };
    daemon
      .begin('GET', `${path}/execs/${eid}/output`, options, (response) => {
        began.resolve();
        response.resume().once('error', () => cut.resolve());
      })
      .on('error', () => undefined);
    await began.promise;
    expect((await daemon.call('DELETE', `/v1/api-keys/${made.id}`)).status).toBe(204);
    await Promise.all([left, cut.promise]);
    expect((await daemon.call('GET', `${path}/execs/${eid}`)).json.state).toBe('running');
  });

  it('is refused before the upgrade, by a status', async () => {
    const status = (eid: string, protocols: string[]) =>
      new Promise<number | undefined>((resolve) => {
        const socket = new WebSocket(`ws://127.0.0.1:${daemon.port}${path}/execs/${eid}/attach`, protocols);
        socket.on('unexpected-response', (_request, response) => resolve(response.statusCode));
        socket.on('error', () => undefined);
      });
    expect(await status('none', [v1.attachProtocol, `bearer.${daemon.key}`])).toBe(404);
    expect(await status('none', [v1.attachProtocol])).toBe(401);
    expect(await status('none', [v1.attachProtocol, 'bearer.wrong'])).toBe(401);
    await daemon.refused(404, 'not_found', 'GET', `${path}/execs/none/attach`);
  });

  it('that is left leaves the command', async () => {
    const eid = await daemon.exec(id, { command: 'hang' });
    const { socket, open } = attach(eid);
    await open;
    socket.terminate();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await daemon.call('GET', `${path}/execs/${eid}`)).json.state).toBe('running');
  });
});

describe('processes of the reference', () => {
  it('are views over execs', async () => {
    const body = { command: 'cat', max_runtime_seconds: 60, description: 'a cat' };
    const started = await daemon.ok(v1.startedProcess, 201, 'POST', `${path}/processes`, { body });
    expect(started.status).toBe('running');
    const one = `${path}/processes/${started.process_id}`;
    const { processes } = await daemon.ok(v1.processList, 200, 'GET', `${path}/processes`);
    expect(processes).toEqual([
      { ...started, command: 'cat', description: 'a cat', exit_code: null, expose_port: null },
    ]);
    await daemon.ok(v1.inputAnswer, 200, 'POST', `${one}/input`, { body: { data: 'mew' } });
    await until(async () => (await daemon.call('GET', `${one}/output`)).json.next_offset === 3);
    expect(await daemon.ok(v1.processOutput, 200, 'GET', `${one}/output?since_offset=1`)).toEqual({
      status: 'running',
      stdout_chunk: 'ew',
      next_offset: 3,
      truncated: false,
      exit_code: null,
    });
    expect(await daemon.ok(v1.stoppedProcess, 200, 'POST', `${one}/stop`)).toEqual({
      status: 'stopped',
      exit_code: 143,
    });
    expect(await daemon.ok(v1.stoppedProcess, 200, 'POST', `${one}/stop`)).toEqual({
      status: 'stopped',
      exit_code: 143,
    });
    const stream = await daemon.call('GET', `${one}/stream`);
    expect(stream.text).toBe(
      'event: output\ndata: {"type":"output","stdout_chunk":"mew","next_offset":3,"truncated":false}\n\n' +
        'event: exit\ndata: {"type":"exit","status":"stopped","exit_code":143}\n\n',
    );
    const other = await daemon.exec(id, { command: 'true' });
    await daemon.refused(404, 'not_found', 'GET', `${path}/processes/${other}/output`);
    await daemon.refused(422, 'invalid_request', 'POST', `${path}/processes`, { body: { command: 'cat' } });
  });

  it('are followed by whole characters, and by U+FFFD for the half of one at the end', async () => {
    const body = { command: 'cat', max_runtime_seconds: 60 };
    const { process_id } = await daemon.ok(v1.startedProcess, 201, 'POST', `${path}/processes`, { body });
    const one = `${path}/processes/${process_id}`;
    const got: Buffer[] = [];
    const ended = Promise.withResolvers<void>();
    daemon.begin('GET', `${one}/stream`, {}, (response) => {
      response.on('data', (part: Buffer) => got.push(part));
      response.on('end', () => ended.resolve());
    });
    for (const bytes of [[0xc3], [0xa9, 0xe2], [0x82]]) {
      const before = got.length;
      await daemon.call('POST', `${path}/execs/${process_id}/input`, { body: Buffer.from(bytes) });
      await until(() => got.length > before);
    }
    await daemon.call('POST', `${one}/stop`);
    await ended.promise;
    const chunks = [
      ...Buffer.concat(got)
        .toString()
        .matchAll(/"stdout_chunk":"([^"]*)"/g),
    ].map(([, text]) => text);
    expect(chunks.join('')).toBe('é\u{fffd}');
  });
});

describe('an Idempotency-Key', () => {
  const headers = { 'idempotency-key': 'k1' };

  it('makes one sandbox, and answers the same again', async () => {
    const body = { label: 'once' };
    const before = daemon.substrate.running.size;
    const first = await daemon.call('POST', '/v1/sandboxes', { body, headers });
    const second = await daemon.call('POST', '/v1/sandboxes', { body, headers });
    expect([second.status, second.text, second.headers['idempotent-replayed']]).toEqual([201, first.text, 'true']);
    expect(daemon.substrate.running.size).toBe(before + 1);
    await daemon.refused(422, 'idempotency_key_reuse', 'POST', '/v1/sandboxes', { body: { label: 'b' }, headers });
  });

  it('of another account is another one', async () => {
    const call = { body: { label: 'theirs' }, headers: { 'idempotency-key': 'shared' } };
    const mine = await daemon.ok(v1.createdSandbox, 201, 'POST', '/v1/sandboxes', call);
    const { key } = await daemon.ok(v1.createdKey, 201, 'POST', '/v1/api-keys', {
      body: { name: 'other', account: 'other' },
    });
    const theirs = await daemon.call('POST', '/v1/sandboxes', { ...call, key });
    expect([theirs.status, theirs.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(theirs.json.id).not.toBe(mine.id);
    const again = await daemon.call('POST', '/v1/sandboxes', { ...call, key });
    expect([again.text, again.headers['idempotent-replayed']]).toEqual([theirs.text, 'true']);
  });

  it('refuses a second call while the first runs, and lets a failed one be tried again', async () => {
    const call = { body: { command: 'hang', timeout: 2 }, headers: { 'idempotency-key': 'k2' } };
    const first = daemon.call('POST', `${path}/exec`, call);
    await until(() => fakeExecs().running > 0);
    await daemon.refused(409, 'idempotency_key_in_progress', 'POST', `${path}/exec`, call);
    expect((await first).json.end).toBe('timed_out');
    const failing = { body: { command: 'nope' }, headers: { 'idempotency-key': 'k3' } };
    await daemon.refused(422, 'command_not_found', 'POST', `${path}/exec`, failing);
    await daemon.refused(422, 'command_not_found', 'POST', `${path}/exec`, failing);
    const long = { body: {}, headers: { 'idempotency-key': 'x'.repeat(256) } };
    await daemon.refused(422, 'invalid_request', 'POST', '/v1/sandboxes', long);
  });
});
