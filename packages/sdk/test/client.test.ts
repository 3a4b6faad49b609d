/** Answers that are late, huge, foreign or refusals, and what never leaves the SDK. */
import type { ServerResponse } from 'node:http';
import { BoxkiteError, BoxkiteWireError } from '@boxkite/protocol';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Sandbox } from '../src/sandbox.ts';
import { serverProvider } from '../src/server.ts';
import { FakeHandle, FakeSandbox, record, script } from './fake-port.ts';
import { sandboxJson, usageJson, V1Server } from './v1-server.ts';

const KEY = `bxk_live_${'k'.repeat(43)}`;

let server: V1Server;
let sandbox: Sandbox;

beforeEach(async () => {
  server = await V1Server.start(new FakeSandbox(async () => new FakeHandle(script([Buffer.from('out')]))));
  sandbox = await Sandbox.create({ url: server.url, apiKey: KEY });
  server.seen.length = 0;
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): true {
  response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));
  return true;
}

function error(code: string, fields: Record<string, unknown> = {}): unknown {
  return { error: { code, message: 'said by the server', ...fields } };
}

test('a refusal is the server’s own error, known or not', async () => {
  server.hook = (_request, response) =>
    answer(response, 418, error('of_the_future', { hint: 'do this', retryable: true, details: { a: 1 } }));
  const failure = await sandbox.exec('x').catch((reason: unknown) => reason);
  expect(failure).toBeInstanceOf(BoxkiteWireError);
  expect(failure).toMatchObject({
    status: 418,
    code: 'of_the_future',
    hint: 'do this',
    retryable: true,
    details: { a: 1 },
  });
  server.hook = (_request, response) => answer(response, 404, error('file_not_found'));
  expect(await sandbox.files.exists('x')).toBe(false);
  await expect(sandbox.files.stat('x')).rejects.toMatchObject({ hint: expect.stringContaining('parent') as string });
});

test.each([
  ['a redirect', 302, '', { location: 'http://127.0.0.1:1/' }],
  ['a page', 200, '<html>', {}],
  ['a page of a proxy', 502, '<html>', {}],
  ['an empty answer', 200, '', {}],
  ['another object', 200, '{"hello":1}', {}],
  ['null', 200, 'null', {}],
  ['a record of unknown end', 200, JSON.stringify({ exec_id: '1', end: 'melted' }), {}],
])('%s is named as an answer that is none of boxkite', async (_what, status, body, headers) => {
  server.hook = (_request, response) => answer(response, status, body, headers);
  for (const call of [
    () => sandbox.exec('x'),
    () => sandbox.execs.start('x'),
    () => sandbox.files.stat('x'),
    () => sandbox.status(),
    () => sandbox.execs.list(),
  ])
    await expect(call()).rejects.toMatchObject({ name: 'BoxkiteError', code: 'unexpected_answer' });
  expect(server.seen.length).toBe(5);
});

test('an answer that fills memory is cut off', async () => {
  let sent = 0;
  server.hook = (_request, response) => {
    response.writeHead(200);
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(100_000))) sent += 100_000;
      response.once('drain', more);
    };
    more();
    return true;
  };
  await expect(sandbox.exec('x', { max_output_bytes: 1000 })).rejects.toMatchObject({ code: 'unexpected_answer' });
  expect(sent).toBeLessThan(20_000_000);
});

test('a late answer ends with the deadline, a cancelled call at once', async () => {
  server.hook = () => true;
  const begun = Date.now();
  await expect(sandbox.files.stat('x', { timeout_ms: 50 })).rejects.toMatchObject({ code: 'timeout' });
  await expect(sandbox.status({ timeout_ms: 50 })).rejects.toMatchObject({ code: 'timeout' });
  await expect(sandbox.exec('x', { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({ code: 'aborted' });
  await expect(sandbox.exec('x', { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'aborted' });
  expect(Date.now() - begun).toBeLessThan(20_000);
});

test('a cancelled create leaves nothing, however late its answer', async () => {
  let late: ServerResponse | undefined;
  server.hook = (request, response) => {
    if (request.method !== 'POST') return false;
    late = response;
    return true;
  };
  const call = Sandbox.create({ url: server.url, timeout_ms: 1000 });
  await expect(call).rejects.toMatchObject({ code: 'timeout' });
  if (late !== undefined) answer(late, 201, { ...sandboxJson(), usage: usageJson });
  await expect.poll(() => server.destroyed).toBe(1);
});

describe('retries', () => {
  test('wait as long as the server says, within reason', async () => {
    let calls = 0;
    server.hook = (_request, response) => {
      calls += 1;
      if (calls > 2) return false;
      return answer(response, 429, error('capacity', { retryable: true }), { 'retry-after': '0.05' });
    };
    await sandbox.exec('x');
    expect(calls).toBe(3);
    server.hook = (_request, response) =>
      answer(response, 429, error('capacity', { retryable: true }), { 'retry-after': '3600' });
    server.seen.length = 0;
    await expect(sandbox.exec('x')).rejects.toMatchObject({ code: 'capacity' });
    expect(server.seen.length).toBe(1);
  });

  test('happen for a daemon that starts, and end', async () => {
    server.hook = (_request, response) => answer(response, 503, error('state_unavailable', { retryable: true }));
    await expect(sandbox.files.stat('x')).rejects.toMatchObject({ code: 'state_unavailable' });
    expect(server.seen.length).toBe(5);
  });

  test('wait for a command that is still being started after a cut', async () => {
    let calls = 0;
    server.hook = (_request, response) => {
      calls += 1;
      if (calls === 1) response.destroy();
      else if (calls < 8) answer(response, 409, error('idempotency_key_in_progress', { retryable: true }));
      return calls < 8;
    };
    expect((await sandbox.execs.start('x')).exec_id).toBe('1');
    const keys = new Set(server.headers.slice(-8).map((headers) => headers['idempotency-key']));
    expect(keys.size).toBe(1);
  });
});

test('a server that ended during a call does not know how far it came, and says so', async () => {
  let calls = 0;
  server.hook = (_request, response) => {
    calls += 1;
    if (calls === 1) response.destroy();
    else answer(response, 409, error('conflict'));
    return true;
  };
  await expect(sandbox.execs.start('x')).rejects.toMatchObject({ name: 'BoxkiteError', code: 'connection_lost' });
  expect(calls).toBe(2);
});

test('an abort is told when the command is gone', async () => {
  let running = true;
  let asked = 0;
  const exec = {
    exec_id: '1',
    argv: ['sleep'],
    cwd: '/',
    tty: false,
    started_at: '',
    ended_at: null,
    stdout_bytes: 0,
    stderr_bytes: 0,
    record: null,
  };
  server.hook = (request, response) => {
    if (request.method === 'POST') {
      response.on('close', () => setTimeout(() => (running = false), 100));
      return true;
    }
    asked += 1;
    return answer(response, 200, { execs: [{ ...exec, state: running ? 'running' : 'ended' }] });
  };
  await expect(sandbox.exec(['sleep'], { signal: AbortSignal.timeout(20) })).rejects.toMatchObject({ code: 'aborted' });
  expect(running).toBe(false);
  expect(asked).toBeGreaterThan(1);
});

test('hundreds of streams that wait keep no call from its answer', async () => {
  server.hook = (request, response) => {
    if (request.url?.includes('/output') !== true) return false;
    response.writeHead(200).flushHeaders();
    return true;
  };
  const streams = Array.from({ length: 400 }, () => sandbox.stream('x'));
  const results = streams.map((stream) => stream.result);
  for (const result of results) result.catch(() => undefined);
  await expect.poll(() => server.seen.filter((line) => line.includes('/output')).length, { timeout: 20_000 }).toBe(400);
  await sandbox.execs.start('x');
  server.hook = () => false;
  server.cutAll();
  await Promise.all(results);
});

test('a cancelled stream ends though its server is gone', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const stop = new AbortController();
    server.hook = (request) => request.url?.includes('/output') === true || request.url?.includes('/signal') === true;
    const stream = sandbox.stream('x', { signal: stop.signal });
    await stream.started;
    const result = stream.result;
    stop.abort();
    await vi.advanceTimersByTimeAsync(6000);
    await expect(result).rejects.toMatchObject({ code: 'aborted' });
  } finally {
    vi.useRealTimers();
  }
});

test('nothing at the other end is daemon_unreachable, and no private runner takes its place', async () => {
  await expect(Sandbox.create({ url: 'unix:///nonexistent/boxkite.sock' })).rejects.toMatchObject({
    name: 'BoxkiteError',
    code: 'daemon_unreachable',
    retryable: true,
    details: { url: 'unix:///nonexistent/boxkite.sock' },
  });
  await expect(Sandbox.create({ url: 'http://127.0.0.1:1' })).rejects.toMatchObject({ code: 'daemon_unreachable' });
});

test('the key is in one header and nowhere else', async () => {
  expect(server.headers[0]?.authorization).toBe(`Bearer ${KEY}`);
  const provider = serverProvider({ url: server.url, apiKey: KEY });
  const failures: unknown[] = [];
  for (const hook of [
    (_request: unknown, response: ServerResponse) => answer(response, 401, error('invalid_api_key')),
    (_request: unknown, response: ServerResponse) => answer(response, 200, '<'),
    (_request: unknown, response: ServerResponse) => {
      response.destroy();
      return true;
    },
  ]) {
    server.hook = hook;
    failures.push(await provider.sandboxes.get('a').catch((reason: unknown) => reason));
  }
  const { inspect } = await import('node:util');
  for (const failure of failures) {
    expect(failure).toBeInstanceOf(Error);
    expect(inspect(failure, { depth: 20 })).not.toContain('kkkk');
    expect(JSON.stringify(failure)).not.toContain('kkkk');
  }
  expect(server.seen.join('\n')).not.toContain('kkkk');
  expect(inspect(provider, { depth: 20, showHidden: true })).not.toContain('kkkk');
});

test.each(['a\r\nx-evil: 1', 'käy', 'a b', '', 'k'.repeat(513)])(
  'the key %j is refused and not shown',
  async (apiKey) => {
    const failure = await Sandbox.create({ url: server.url, apiKey }).catch((reason: unknown) => reason);
    expect(failure).toMatchObject({ code: 'invalid_request', details: { field: 'apiKey' } });
    if (apiKey !== '') expect(String(failure)).not.toContain(apiKey);
  },
);

test.each(['..', '../api-keys', 'a/b', 'a?b', '', 'a b', '.', 'a\r\nb', '%2e%2e'])('the id %j is no id', async (id) => {
  const options = { url: server.url };
  await expect(Sandbox.connect(id, options)).rejects.toMatchObject({ code: 'not_found' });
  await expect(sandbox.execs.get(id)).rejects.toMatchObject({ code: 'not_found' });
  await expect(sandbox.attach(id).result).rejects.toMatchObject({ code: 'not_found' });
  expect(server.seen).toEqual([]);
});

test.each(['a\r\nb', '%00', '?x=1#y', '☃', '\u0001'])('the path %j arrives as it is', async (path) => {
  const seen: string[] = [];
  server.hook = (request, response) => {
    seen.push(new URL(request.url ?? '', 'http://x').searchParams.get('path') ?? '');
    return answer(response, 200, { name: 'x', path: '/x', type: 'file', size: 1, mode: 420, modified_ms: 1 });
  };
  await sandbox.files.stat(path);
  expect(seen).toEqual([path]);
});

test('half of a surrogate pair is refused before it is sent', async () => {
  await expect(sandbox.files.stat('\ud800')).rejects.toMatchObject({ code: 'invalid_request' });
  expect(server.seen).toEqual([]);
});

test.each([
  'ftp://x',
  'nonsense',
  'http://192.0.2.1:8090',
  'http://user:secret@127.0.0.1',
  'https://example.org/?key=secret',
  'unix://relative',
])('the URL %s is refused and not shown', async (url) => {
  const failure = await Sandbox.create({ url }).catch((reason: unknown) => reason);
  expect(failure).toMatchObject({ code: 'invalid_request', details: { field: 'url' } });
  expect(String(failure)).not.toContain('secret');
});

test('a list comes page by page, and its links lead nowhere but to the next page', async () => {
  const ids = Array.from({ length: 7 }, (_unused, index) => `id-${index}`);
  server.hook = (request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    const start = Number(url.searchParams.get('cursor') ?? 0);
    const page = ids
      .slice(start, start + 3)
      .map((id) => sandboxJson({ id, ...(id === 'id-4' ? { state: 'destroyed' } : {}) }));
    const next = start + 3 < ids.length ? { link: `<http://evil.example/v1/x?cursor=${start + 3}>; rel="next"` } : {};
    return answer(response, 200, page, next);
  };
  const found: string[] = [];
  for await (const { id } of Sandbox.list({ url: server.url })) found.push(id);
  expect(found).toEqual(ids.filter((id) => id !== 'id-4'));
  expect(server.seen.length).toBe(3);
  found.length = 0;
  for await (const { id } of Sandbox.list({ url: server.url, destroyed: true })) found.push(id);
  expect(found).toEqual(ids);
});

test('a page that leads to itself is no endless list', async () => {
  server.hook = (_request, response) => answer(response, 200, [], { link: '</v1/sandboxes?cursor=1>; rel="next"' });
  const read = async (): Promise<void> => {
    for await (const each of Sandbox.list({ url: server.url })) void each;
  };
  await expect(read()).rejects.toMatchObject({ code: 'unexpected_answer' });
});

test('arguments that no system call takes are not sent', async () => {
  await expect(sandbox.exec(['echo', 'x'.repeat(4_000_000)])).rejects.toMatchObject({ code: 'argument_list_too_long' });
  expect(server.seen).toEqual([]);
});

test('output that is not UTF-8 comes as its bytes', async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_unused, index) => index);
  await using other = await V1Server.start(new FakeSandbox(async () => new FakeHandle(script([bytes]))));
  const result = await (await Sandbox.create({ url: other.url })).exec('x');
  expect(Buffer.from(result.raw.stdout)).toEqual(Buffer.from(bytes));
});

test('input that is too long for one request is written behind it', async () => {
  let written = 0;
  const handle = new FakeHandle(script([Buffer.from('done')], record()));
  handle.write = async (data) => {
    written += data.length;
  };
  await using other = await V1Server.start(new FakeSandbox(async () => handle));
  const result = await (await Sandbox.create({ url: other.url })).exec('x', { stdin: new Uint8Array(5_500_000) });
  expect(result.stdout).toBe('done');
  await expect.poll(() => written).toBe(5_500_000);
});

describe('a cancelled command with input that is too long for one request', () => {
  const stdin = new Uint8Array(5_500_000);

  test('is killed, however late the answer to its start', async () => {
    const handle = new FakeHandle(script([], record()));
    await using other = await V1Server.start(new FakeSandbox(async () => handle));
    const there = await Sandbox.create({ url: other.url });
    other.hook = async (request) => {
      if (request.url?.endsWith('/execs') === true) await new Promise((resolve) => setTimeout(resolve, 150));
      return false;
    };
    const call = there.exec('x', { stdin, signal: AbortSignal.timeout(50) });
    await expect(call).rejects.toMatchObject({ code: 'aborted' });
    await expect.poll(() => handle.calls).toContain('kill');
  });

  test('is told as cancelled, though it has ended meanwhile', async () => {
    const never = (async function* () {
      yield* script([Buffer.from('some')]).slice(0, 1);
      await new Promise(() => undefined);
    })();
    await using other = await V1Server.start(new FakeSandbox(async () => new FakeHandle(never)));
    const there = await Sandbox.create({ url: other.url });
    other.hook = (request, response) =>
      request.url?.endsWith('/signal') === true && answer(response, 409, error('exec_ended'));
    const call = there.exec('x', { stdin, signal: AbortSignal.timeout(100) });
    await expect(call).rejects.toMatchObject({ code: 'aborted' });
  });
});

test('a source of input that fails ends the loop over the command, with its own failure', async () => {
  const never = (async function* () {
    yield* script([Buffer.from('some')]).slice(0, 1);
    await new Promise(() => undefined);
  })();
  const handle = new FakeHandle(never);
  await using other = await V1Server.start(new FakeSandbox(async () => handle));
  const there = await Sandbox.create({ url: other.url });
  const { exec_id } = await there.execs.start('x', { stdin: 'stream' });
  const source = async function* () {
    yield 'a';
    throw new RangeError('of the source');
  };
  const stream = there.attach(exec_id, { stdin: source() });
  const reading = (async () => {
    for await (const event of stream) void event;
  })();
  await expect(reading).rejects.toThrow('of the source');
  await expect(stream.result).rejects.toThrow('of the source');
  expect(handle.calls).toEqual(['write a']);
  const late = there.attach(exec_id, { stdin: 'b', timeout_ms: 1 }).result;
  await expect(late).rejects.toMatchObject({ code: 'timeout' });
});

test('a server that stops reading an upload says why', async () => {
  server.hook = () => false;
  let pulled = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) {
      pulled += 1;
      yield new Uint8Array(100_000);
    }
  }
  const { createServer } = await import('node:http');
  const refusing = createServer((request, response) => {
    request.once('data', () => answer(response, 507, error('no_space')));
  });
  await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
  const port = (refusing.address() as { port: number }).port;
  const provider = serverProvider({ url: `http://127.0.0.1:${port}` });
  const files = provider.sandboxes.port(sandboxJson()).files;
  await expect(files.write('x', endless())).rejects.toMatchObject({ code: 'no_space', status: 507 });
  expect(pulled).toBeLessThan(1000);
  const fault = (async function* (): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(1);
    throw new TypeError('of the source');
  })();
  await expect(files.write('x', fault)).rejects.toThrow('of the source');
  refusing.closeAllConnections();
  await new Promise((resolve) => refusing.close(resolve));
});

test('what needs a daemon says so over a private provider', async () => {
  const { FakeProvider } = await import('./fake-port.ts');
  const alone = await Sandbox.create({ provider: new FakeProvider(new FakeSandbox(async () => new FakeHandle([]))) });
  for (const call of [
    () => alone.execs.start('x'),
    () => alone.execs.list(),
    () => alone.attach('1').result,
    () => alone.extend(1),
    () => alone.stop(),
    () => alone.start(),
    () => alone.status(),
  ]) {
    const failure = await call().catch((reason: unknown) => reason);
    expect(failure).toBeInstanceOf(BoxkiteError);
    expect(failure).toMatchObject({ code: 'unsupported' });
  }
});
