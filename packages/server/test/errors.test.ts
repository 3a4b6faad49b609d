import { connect } from 'node:net';
import { v1 } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bodyOf, expectError, TestDaemon } from './harness.ts';

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(() => daemon.close());

/** Sends bytes and reads until the connection ends. */
function raw(text: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(daemon.socket);
    let got = '';
    socket.on('data', (part) => {
      got += part.toString();
    });
    socket.on('error', () => resolve(got));
    socket.on('close', () => resolve(got));
    socket.write(text);
  });
}

const json = { 'content-type': 'application/json' };

describe('errors', () => {
  it('need no key to be told to send one, and health needs none', async () => {
    expect((await daemon.call('GET', '/health', { key: null })).json).toEqual({ status: 'ok' });
    const refused = await daemon.refused(401, 'missing_credentials', 'GET', '/v1/sandboxes', { key: null });
    expect(refused.headers['www-authenticate']).toBe('Bearer');
    const wrong = `${v1.apiKeyPrefix}${'A'.repeat(43)}`;
    await daemon.refused(401, 'invalid_api_key', 'GET', '/v1/sandboxes', { key: wrong });
    await daemon.refused(401, 'invalid_api_key', 'GET', '/v1/sandboxes', { key: 'x' });
    const basic = { authorization: 'Basic abc' };
    await daemon.refused(401, 'missing_credentials', 'GET', '/v1/sandboxes', { key: null, headers: basic });
  });

  it('are told before a body is read', async () => {
    const text = await raw(
      'POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\nconnection: close\r\n\r\n{',
    );
    expect(text).toMatch(/^HTTP\/1\.1 401 /);
  });

  it.each([
    ['GET', '/', 404, 'not_found'],
    ['GET', '/v1', 404, 'not_found'],
    ['GET', '/v1/nothing', 404, 'not_found'],
    ['GET', '/%2e%2e/etc/passwd', 404, 'not_found'],
    ['PATCH', '/v1/sandboxes', 405, 'method_not_allowed'],
    ['DELETE', '/health', 405, 'method_not_allowed'],
    ['GET', '/v1/sandboxes/a/exec', 405, 'method_not_allowed'],
  ])('of %s %s are %d %s', async (method, path, status, code) => {
    const refused = await daemon.refused(status, code, method, path);
    if (status === 405) expect(refused.headers['allow']).toMatch(/GET|POST/);
    else expect(refused.json.error.hint).toMatch(/^Check the path/);
  });

  it('of bodies say what is wrong with them', async () => {
    const post = (body: string | Buffer, headers: Record<string, string>) => ({ body, headers });
    await daemon.refused(400, 'bad_request', 'POST', '/v1/sandboxes', post('{"a":', json));
    const untyped = await daemon.refused(
      415,
      'unsupported_media_type',
      'POST',
      '/v1/sandboxes',
      post('a=b', { 'content-type': 'text/plain' }),
    );
    expect(untyped.json.error.hint).toContain('application/json');
    await daemon.refused(422, 'invalid_request', 'POST', '/v1/sandboxes', post('[1]', json));
    await daemon.refused(422, 'invalid_request', 'POST', '/v1/sandboxes', post('null', json));
    const refused = await daemon.refused(422, 'invalid_request', 'POST', '/v1/sandboxes', {
      body: { label: 'x'.repeat(300), count: 'secret-value' },
    });
    expect(refused.text).not.toContain('secret-value');
    expect(refused.json.error.details['field']).toBe('label');
    await daemon.refused(
      400,
      'bad_request',
      'POST',
      '/v1/sandboxes',
      post(Buffer.from('{"label":"\xe9"}', 'latin1'), json),
    );
    const large = Buffer.alloc(17 * 1024 * 1024, 0x20);
    await daemon.refused(413, 'payload_too_large', 'POST', '/v1/sandboxes', post(large, json));
    const empty = await daemon.call('POST', '/v1/sandboxes', post('', json));
    expect(empty.status).toBe(201);
    await daemon.call('DELETE', `/v1/sandboxes/${empty.json.id}`);
  });

  it('of a body that pollutes do nothing', async () => {
    const made = await daemon.call('POST', '/v1/sandboxes', {
      body: '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"label":"a"}',
      headers: json,
    });
    expect(made.status).toBe(201);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    await daemon.call('DELETE', `/v1/sandboxes/${made.json.id}`);
  });

  it.each([
    ['no HTTP', 'hello\r\n\r\n', 400, 'bad_request'],
    [
      'headers that are too large',
      `GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(40_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    ['a URL that is too long', `GET /${'x'.repeat(40_000)} HTTP/1.1\r\nhost: x\r\n\r\n`, 431, 'headers_too_large'],
    [
      'a URL that can not be decoded',
      'GET /v1/sandboxes/%zz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
      400,
      'bad_request',
    ],
    ['a request without a host', 'GET /health HTTP/1.1\r\n\r\n', 400, 'bad_request'],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
      400,
      'bad_request',
    ],
  ])('of %s are of the same shape', async (_what, text, status, code) => {
    const got = await raw(text);
    expect(got).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    const body = got.slice(got.indexOf('\r\n\r\n') + 4);
    expect(bodyOf(body).error.code).toBe(code);
  });

  it('of what is no request are not put into an answer that has begun', async () => {
    const id = await daemon.sandbox();
    const eid = await daemon.exec(id, { command: 'hang' });
    const socket = connect(daemon.socket);
    socket.on('error', () => undefined);
    let got = '';
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    socket.on('data', (part) => {
      if (got === '') socket.write('no request\r\n\r\n');
      got += part.toString();
    });
    socket.write(
      `GET /v1/sandboxes/${id}/execs/${eid}/output HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\nauthorization: Bearer ${daemon.key}\r\n\r\n`,
    );
    await closed;
    expect(got.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200']);
    await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  });

  it('that nobody expected say nothing, and are in the log', async () => {
    const id = await daemon.sandbox();
    const sandbox = daemon.substrate.find(id);
    if (sandbox === undefined) throw new Error('it does not run');
    sandbox.execs.list = () => Promise.reject(new TypeError('secret /home/user/thing at node_modules'));
    const found = await daemon.call('GET', `/v1/sandboxes/${id}/execs`);
    expect([found.status, found.json.error.code, found.json.error.message]).toEqual([
      500,
      'internal',
      'something went wrong in boxkite',
    ]);
    expectError(found);
    expect(daemon.logs.join('')).toContain('secret /home/user/thing');
    await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  });

  it('never put a key into the log', () => {
    expect(daemon.logs.join('')).not.toContain(daemon.key);
  });
});

describe('keys', () => {
  it('are taken from no URL, and none is logged', async () => {
    for (const name of ['api_key', 'key', 'token', 'access_token', 'authorization']) {
      for (const path of ['/v1/sandboxes', '/v1/sandboxes/a/execs/b/attach']) {
        const named = `${path}?${name}=${daemon.key}`;
        await daemon.refused(401, 'missing_credentials', 'GET', named, { key: null });
      }
    }
    expect(daemon.logs.join('')).not.toContain(daemon.key);
  });

  it('are made, shown once, used and revoked', async () => {
    const made = await daemon.ok(v1.createdKey, 201, 'POST', '/v1/api-keys', { body: { name: 'ci', account: 'team' } });
    expect(made.key).toMatch(/^bxk_live_[A-Za-z0-9_-]{43}$/);
    expect(made.key.startsWith(made.prefix)).toBe(true);
    const listed = await daemon.call('GET', '/v1/api-keys');
    v1.apiKeyList.parse(listed.json);
    expect(listed.text).not.toContain(made.key);
    const { key } = made;
    expect((await daemon.call('GET', '/v1/sandboxes', { key })).status).toBe(200);
    for (const [method, path] of [
      ['GET', '/v1/status'],
      ['GET', '/v1/api-keys'],
      ['POST', '/v1/api-keys'],
      ['DELETE', '/v1/api-keys/x'],
    ] as const) {
      await daemon.refused(403, 'admin_required', method, path, { key });
    }
    expect((await daemon.call('DELETE', `/v1/api-keys/${made.id}`)).status).toBe(204);
    await daemon.refused(401, 'invalid_api_key', 'GET', '/v1/sandboxes', { key });
    await daemon.refused(404, 'not_found', 'DELETE', `/v1/api-keys/${made.id}`);
    await daemon.refused(422, 'invalid_request', 'POST', '/v1/api-keys', { body: { name: '' } });
  });

  it('have one that this machine uses, which is named so and can not be removed', async () => {
    const keys = v1.apiKeyList.parse((await daemon.call('GET', '/v1/api-keys')).json);
    const [local, ...others] = keys.filter(({ name }) => name === 'local');
    expect(others).toEqual([]);
    expect(daemon.key.startsWith(local?.prefix ?? '?')).toBe(true);
    await daemon.refused(409, 'conflict', 'DELETE', `/v1/api-keys/${local?.id}`);
    await daemon.ok(v1.status, 200, 'GET', '/v1/status');
  });

  it('show the state of the daemon to administrators', async () => {
    const status = await daemon.ok(v1.status, 200, 'GET', '/v1/status');
    expect(status).toMatchObject({ version: '0.0.0', instance: 'abc', runner: { mode: 'root' }, pid: process.pid });
  });
});

it('no answer may be shown in a frame: successes, refusals, streams, bytes, what is no request', async () => {
  const id = await daemon.sandbox();
  const path = `/v1/sandboxes/${id}`;
  const eid = await daemon.exec(id, { command: 'echo a' });
  await daemon.call('PUT', `${path}/files/content?path=a.html`, { body: '<p>' });
  const events = { headers: { accept: 'text/event-stream' } };
  const started = await daemon.call('POST', `${path}/processes`, { body: { command: 'true', max_runtime_seconds: 9 } });
  const { process_id } = v1.startedProcess.parse(started.json);
  const answers = [
    await daemon.call('GET', '/health', { key: null }),
    await daemon.call('GET', path),
    await daemon.call('GET', '/v1/sandboxes', { key: null }),
    await daemon.call('GET', '/nothing'),
    await daemon.call('PATCH', '/health'),
    await daemon.call('POST', '/v1/sandboxes', { body: { count: -1 } }),
    await daemon.call('GET', `${path}/execs/${eid}/output`, events),
    await daemon.call('GET', `${path}/execs/${eid}/output?stream=stdout`),
    await daemon.call('GET', `${path}/processes/${process_id}/stream`),
    await daemon.call('GET', `${path}/files/content?path=a.html`),
    await daemon.call('HEAD', `${path}/files/content?path=a.html`),
    await daemon.call('GET', `${path}/files/archive?path=/workspace`),
    await daemon.call('GET', `${path}/execs/${eid}/attach`),
    await daemon.call('GET', '/v1/%zz'),
    await daemon.call('GET', `/v1/sandboxes/${'x'.repeat(300)}`),
  ];
  for (const { status, headers, text } of answers) {
    expect(headers['x-frame-options'], `${status} ${text}`).toBe('DENY');
    expect(headers['content-security-policy'], `${status} ${text}`).toBe("frame-ancestors 'none'");
  }
  const handshake =
    'GET /v1/sandboxes/a/execs/b/attach HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n' +
    'sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';
  for (const text of ['hello\r\n\r\n', handshake]) {
    const got = await raw(text);
    expect(got).toMatch(/^HTTP\/1\.1 40[01] /);
    expect(got).toMatch(/^x-frame-options: DENY\r$/im);
    expect(got).toMatch(/^content-security-policy: frame-ancestors 'none'\r$/im);
  }
  await daemon.call('DELETE', path);
});
