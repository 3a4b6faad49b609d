/** The sidecar's app over a real runner: its own routes by the reference's wire, and ours. */
import { randomBytes } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import { blankConfiguration, createSidecar, type Session, SessionRegistry } from '@boxkite/sidecar/app';
import { sleep } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { ServedSessions } from './support/served-sessions.ts';

let served: ServedSessions;
let one: Session;
const TOKEN = randomBytes(32).toString('base64url');
const OTHER = randomBytes(32).toString('base64url');
/** Every route that the app has. */
const routes: (readonly [method: string, url: string])[] = [];

beforeAll(async () => {
  served = await ServedSessions.start((app) =>
    app.addHook('onRoute', ({ method, url }) => {
      for (const name of [method].flat()) routes.push([name, url]);
    }),
  );
  one = await served.host.open('one');
  served.registry.add(TOKEN, one);
  served.registry.add(OTHER, await served.host.open('other'));
});

afterAll(() => served[Symbol.asyncDispose]());

/** What answers hold, as far as these tests look. */
interface Answer {
  readonly error: { readonly code: string; readonly message: string };
  readonly detail: readonly { readonly type: string; readonly loc: readonly string[] }[];
  readonly exec_id: string;
  readonly end?: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly generation: number;
  readonly entries: readonly {
    readonly path: string;
    readonly is_dir: boolean;
    readonly size: number;
    readonly modified_at: string;
  }[];
}

async function call(
  method: string,
  url: string,
  payload?: object | Buffer,
  token: string | null = TOKEN,
  more: Record<string, string> = {},
) {
  const headers: Record<string, string> = { ...more };
  if (token !== null) headers['x-sidecar-auth-token'] = token;
  if (payload !== undefined && !Buffer.isBuffer(payload)) headers['content-type'] = 'application/json';
  const answer = await fetch(served.base + url, {
    method,
    headers,
    ...(payload === undefined ? {} : { body: Buffer.isBuffer(payload) ? payload : JSON.stringify(payload) }),
  });
  const raw = Buffer.from(await answer.arrayBuffer());
  const isJson = answer.headers.get('content-type')?.startsWith('application/json') === true;
  return {
    status: answer.status,
    json: (isJson && raw.length > 0 ? JSON.parse(raw.toString()) : null) as Answer,
    raw,
    headers: Object.fromEntries(answer.headers),
  };
}

describe('the token', () => {
  it('is asked for by every route but GET /health, whatever else is wrong', async () => {
    const open: string[] = [];
    for (const [method, url] of routes) {
      for (const token of [null, 'wrong']) {
        const body = method === 'GET' || method === 'HEAD' ? undefined : Buffer.from('{not json');
        const more = body === undefined ? {} : { 'content-type': 'application/json' };
        const { status, headers } = await call(method, url.replaceAll(/:[a-z]+/g, 'x'), body, token, more);
        if (status !== 401) open.push(`${method} ${url}`);
        else expect(headers['content-type']).toContain('application/json');
      }
    }
    expect(open).toEqual(['GET /health', 'GET /health']);
    // The hook has seen them all: routes of its own and of the kit, of bodies of each kind.
    const names = routes.map((route) => route.join(' '));
    expect(names).toEqual(expect.arrayContaining(['POST /configure', 'GET /execs/:eid/attach', 'PUT /files/content']));
    expect(new Set(names).size).toBe(names.length);
  });

  it.each([
    ['POST', '/exec'],
    ['POST', '/configure'],
    ['GET', '/execs'],
    ['PUT', '/files/content?path=x'],
    ['GET', '/no-such-route'],
    ['PATCH', '/exec'],
    ['POST', '/health'],
    ['GET', '/health/'],
    ['GET', '/%zz'],
  ] as const)('is asked for by %s %s before anything else', async (method, url) => {
    for (const token of [null, 'wrong', `${TOKEN}x`, '\u00fc']) {
      const { status, json } = await call(method, url, undefined, token);
      expect([status, json.error.code]).toEqual([401, 'unauthorized']);
      expect(json.detail).toBe(json.error.message);
    }
  });

  it('is not configured: everything is 503, a body is not read, health answers', async () => {
    const empty = createSidecar(new SessionRegistry(), { closing: served.closing.signal });
    const answer = await empty.inject({
      method: 'POST',
      url: '/exec',
      payload: '{not json',
      headers: { 'x-sidecar-auth-token': TOKEN },
    });
    expect([answer.statusCode, answer.json<Answer>().error.code]).toEqual([503, 'not_configured']);
    expect((await empty.inject('/health')).json()).toEqual({ status: 'healthy' });
    await empty.close();
  });

  it('opens its own sandbox and no other', async () => {
    const { json } = await call('POST', '/execs', { command: 'true' });
    expect((await call('GET', `/execs/${json.exec_id}`)).status).toBe(200);
    expect((await call('GET', `/execs/${json.exec_id}`, undefined, OTHER)).json.error.code).toBe('not_found');
  });

  it('shows with health whose it is, and only with it', async () => {
    expect((await call('GET', '/health')).json).toMatchObject({ status: 'healthy', session_id: null, generation: 0 });
    expect((await call('GET', '/health', undefined, null)).json).toEqual({ status: 'healthy' });
  });

  it('lets unknown routes and methods be told apart', async () => {
    expect((await call('GET', '/no-such-route')).json.error.code).toBe('not_found');
    const wrong = await call('PATCH', '/exec');
    expect([wrong.status, wrong.json.error.code, wrong.headers['allow']]).toEqual([405, 'method_not_allowed', 'POST']);
    expect((await call('GET', '/metrics/')).status).toBe(200);
    expect((await call('GET', '/health/', undefined, null)).status).toBe(401);
  });
});

describe('POST /exec', () => {
  it.each([
    ['echo out; echo err >&2; exit 3', { exit_code: 3, stdout: 'out\n', stderr: 'err\n', end: 'exited' }],
    ['', { exit_code: 0, stdout: '', stderr: '' }],
    ['kill -9 $$', { exit_code: -9, end: 'signaled', signal: 'SIGKILL' }],
    ['sh -c "kill -9 \\$\\$"', { exit_code: 137, end: 'exited' }],
    ['no-such-program-anywhere', { exit_code: 127 }],
    ['pwd; id -u', { stdout: '/workspace\n1001\n' }],
    ['sleep 100 & echo left', { exit_code: 0, stdout: 'left\n' }],
  ])('%s', async (command, expected) => {
    const { status, json } = await call('POST', '/exec', { command });
    expect(status).toBe(200);
    expect(json).toMatchObject(expected);
  });

  it('is over at its time limit, with what was told by then', async () => {
    const { json } = await call('POST', '/exec', { command: 'echo begun; sleep 60', timeout: '1' });
    expect(json).toMatchObject({ exit_code: 124, stdout: 'begun\n', end: 'timed_out' });
    expect(json.stderr).toContain('1 seconds');
    expect((await call('POST', '/exec', { command: 'echo', timeout: 0 })).json).toMatchObject({
      exit_code: 124,
      stdout: '',
    });
  });

  it('answers with the first bytes and says so; the record has more', async () => {
    const { json } = await call('POST', '/exec', { command: 'head -c 3000000 /dev/zero | tr "\\0" x' });
    expect(json).toMatchObject({
      exit_code: 0,
      stdout_bytes: 3_000_000,
      stdout_truncated: true,
      stderr_truncated: false,
    });
    expect(json.stdout).toBe('x'.repeat(1_048_576));
    const { raw, headers } = await call('GET', `/execs/${json.exec_id}/output?stream=stdout&offset=2000000`);
    expect(headers['x-boxkite-offset']).toBe('2000000');
    expect(raw.equals(Buffer.alloc(1_000_000, 'x'))).toBe(true);
  });

  it('takes a body as the reference does, and never repeats what is wrong', async () => {
    expect((await call('POST', '/exec', { command: 'echo $A', env: { A: 'b' }, other: 1 })).json.stdout).toBe('\n');
    expect((await call('POST', '/exec', { command: 'echo "$S"', secret_env: { S: 'not-granted' } })).json.stdout).toBe(
      '\n',
    );
    const { status, json } = await call('POST', '/exec', { command: 12345678 });
    expect([status, json.error.code, json.detail[0]?.loc]).toEqual([422, 'invalid_request', ['body', 'command']]);
    expect(JSON.stringify(json)).not.toContain('12345678');
    const problems = async (...[method, url, body]: [string, string, object?]) =>
      (await call(method, url, body)).json.detail.map(({ type, loc }) => [type, ...loc]);
    expect(await problems('POST', '/exec', { tty: { columns: 0, rows: 0 } })).toEqual([
      ['missing', 'body', 'command'],
      ['value_error', 'body', 'tty', 'columns'],
      ['value_error', 'body', 'tty', 'rows'],
    ]);
    expect(await problems('GET', '/files/stat')).toEqual([['missing', 'query', 'path']]);
    expect(await problems('GET', `/process/${'x'.repeat(200)}/output?since_offset=x`)).toEqual([
      ['value_error', 'query', 'since_offset'],
    ]);
    expect(await problems('POST', '/exec', [])).toEqual([['value_error', 'body']]);
    for (const url of ['/exec', '/execs']) {
      expect((await call('POST', url, { command: 'true', network: 'session' })).json.error.code).toBe('unsupported');
    }
  });
});

describe('records', () => {
  it('take input, signals and a kill, and are followed over a WebSocket', async () => {
    const { json } = await call('POST', '/execs', {
      command: 'while read x; do echo got $x; done; echo over',
      stdin_open: true,
    });
    const url = `${served.base.replace('http', 'ws')}/execs/${json.exec_id}/attach`;
    const refused = new WebSocket(url, ['boxkite.v1']);
    const status = await new Promise((resolve) => {
      refused.on('unexpected-response', (_request, response) => resolve(response.statusCode));
      refused.on('error', resolve);
    });
    expect(status).toBe(401);
    const socket = new WebSocket(url, ['boxkite.v1'], { headers: { 'x-sidecar-auth-token': TOKEN } });
    const got: Buffer[] = [];
    socket.on('message', (data: Buffer) => got.push(data));
    await new Promise((resolve) => socket.on('open', resolve));
    socket.send(Buffer.concat([Buffer.of(1), Buffer.from('one\ntwo\n')]));
    socket.send(Buffer.of(2));
    await new Promise((resolve) => socket.on('close', resolve));
    const all = Buffer.concat(got).toString('latin1');
    expect(all).toContain('got one');
    expect(all).toContain('over');
    expect(all).toContain('"end":"exited"');
  });

  it('refuse names that decide what is loaded', async () => {
    const { status, json } = await call('POST', '/execs', { command: 'true', env: { ld_preload: 'x' } });
    expect([status, json.error.code]).toEqual([422, 'invalid_request']);
  });

  it('mask the values of secrets, in every later record too', async () => {
    const secret = 'a-very-secret-value-1';
    const argv = ['sh', '-c', 'echo "$S" > kept; echo $S'];
    const { exec_id } = await one.execs.start({ argv, secret_env: { S: secret } });
    const { raw } = await call('GET', `/execs/${exec_id}/output?stream=stdout&follow=true`);
    expect(raw.toString()).toBe('[redacted:S]\n');
    expect((await call('POST', '/exec', { command: 'cat kept; base64 kept' })).json.stdout).not.toContain(secret);
    expect((await call('GET', '/files/content?path=kept')).raw.toString()).toBe(`${secret}\n`);
  });
});

describe('files', () => {
  it('go in and out as bytes, in ranges, and are listed as the reference does', async () => {
    const bytes = randomBytes(300_000);
    expect((await call('PUT', '/files/content?path=deep/er/file.bin&mode=0600', bytes)).status).toBe(204);
    expect((await call('GET', '/files/content?path=deep/er/file.bin')).raw.equals(bytes)).toBe(true);
    const part = await call('GET', '/files/content?path=deep/er/file.bin', undefined, TOKEN, { range: 'bytes=10-19' });
    expect([part.status, part.headers['content-range']]).toEqual([206, 'bytes 10-19/300000']);
    expect(part.raw.equals(bytes.subarray(10, 20))).toBe(true);
    await call('POST', '/exec', {
      command: 'ln -s file.bin deep/er/link; ln -s /etc/passwd deep/er/out; mkdir deep/er/sub',
    });
    const { json } = await call('POST', '/ls', { path: 'workspace/deep/er' });
    expect(json.entries.map(({ path, is_dir, size }) => [path, is_dir, size])).toEqual([
      ['/workspace/deep/er/file.bin', false, 300_000],
      ['/workspace/deep/er/file.bin', false, 8],
      ['/workspace/deep/er/sub/', true, 0],
    ]);
    expect(json.entries[0]?.modified_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}$/);
    expect((await call('POST', '/ls', { path: '/no/such' })).status).toBe(400);
    expect((await call('POST', '/ls', { path: 'nothing' })).json).toEqual({ entries: [] });
    const tar = await call('GET', '/files/archive?path=deep');
    expect((await call('PUT', '/files/archive?path=copy', tar.raw)).status).toBe(204);
    expect((await call('GET', '/files/content?path=copy/er/file.bin')).raw.equals(bytes)).toBe(true);
    expect((await call('POST', '/files/move', { from: 'copy', to: 'moved' })).status).toBe(204);
    expect((await call('DELETE', '/files?path=moved')).status).toBe(204);
    expect((await call('HEAD', '/files/content?path=moved/er/file.bin')).status).toBe(404);
  });
});

describe('POST /configure', () => {
  it('begins generations, each without anything of the one before', async () => {
    const session = await served.host.open('configured');
    const token = randomBytes(32).toString('base64url');
    served.registry.add(token, session);
    const as = (method: string, url: string, payload?: object | Buffer) => call(method, url, payload, token);
    const first = await as('POST', '/configure', { session_id: 'a' });
    expect(first.status).toBe(200);
    expect(first.json).toMatchObject({ status: 'configured', session_id: 'a', prefetched_files: [], generation: 1 });
    await as('POST', '/exec', {
      command: 'echo 1 > f; mkdir -p d/e; echo 2 > /tmp/g; echo 3 > /mnt/user-data/outputs/h; chmod 000 d',
    });
    const running = await as('POST', '/execs', { command: 'while :; do echo late > late; sleep 0.01; done' });
    const inFlight = as('POST', '/exec', { command: 'sleep 1000', timeout: 1000 });
    const second = await as('POST', '/configure', { session_id: 'b' });
    expect(second.json.generation).toBe(2);
    const ended = (await inFlight).json;
    expect(ended.end ?? ended.error.code).toBe(ended.end === undefined ? 'generation_gone' : 'killed');
    expect((await as('GET', `/execs/${running.json.exec_id}`)).json.error.code).toBe('not_found');
    expect((await as('GET', '/execs')).json).toEqual({ execs: [] });
    const left = 'sleep 0.2; find /workspace /tmp /mnt/user-data /mnt/skills -mindepth 1 | sort | tr "\\n" " "';
    expect((await as('POST', '/exec', { command: left })).json.stdout.trim()).toBe(
      '/mnt/user-data/outputs /mnt/user-data/uploads',
    );
    await as('POST', '/exec', { command: 'echo 1 > f' });
    expect((await as('POST', '/configure', { session_id: 'b', generation: 2 })).json.generation).toBe(2);
    expect((await as('POST', '/exec', { command: 'cat f' })).json.stdout).toBe('1\n');
    expect((await as('POST', '/configure', { session_id: 'c', generation: 2 })).json.error.code).toBe('conflict');
    const lower = await as('POST', '/configure', { session_id: 'c', generation: 1 });
    expect([lower.status, lower.json.error.code]).toEqual([409, 'generation_gone']);
    expect((await as('POST', '/configure', { generation: '7' })).json).toMatchObject({
      generation: 7,
      session_id: null,
    });
    expect((await as('POST', '/configure', { storage_prefix: 'x' })).json.error.code).toBe('unsupported');
    served.registry.remove(token);
    await session.destroy();
  });

  it('leaves nothing that the next process would find, whatever was under way', async () => {
    const wanted = { ...blankConfiguration, session_id: 'a' };
    for (let round = 0; round < 5; round += 1) {
      const session = await served.host.open(`again-${round}`);
      await session.configure(wanted);
      await session.execs.run({ argv: ['echo', 'old'] });
      const long = ['sh', '-c', 'head -c 1000000 /dev/zero; sleep 1000'];
      const running = await Promise.all(Array.from({ length: 8 }, () => session.execs.start({ argv: long })));
      const ending = running.slice(round).map(({ exec_id }) => session.execs.kill(exec_id));
      await session.configure({ ...wanted, session_id: 'b' });
      await Promise.all(ending);
      const { record } = await session.execs.run({ argv: ['echo', 'new'] });
      await session.close();
      const next = await served.host.open(`again-${round}`);
      expect((await next.execs.list()).map(({ exec_id }) => exec_id)).toEqual([record.exec_id]);
      await next.destroy();
    }
  });

  it('that fails in the middle leaves a sandbox that does nothing, also for the next process, until one succeeds', async () => {
    const first = { ...blankConfiguration, session_id: 'first' };
    const session = await served.host.open('between');
    const { generation } = await session.configure(first);
    await session.files.write('/workspace/kept', Buffer.from('x'));
    session.services.gate.begin = () => Promise.reject(new Error('in the middle'));
    await expect(session.configure({ ...first, session_id: 'second' })).rejects.toThrow('in the middle');
    await session.close();
    const next = await served.host.open('between');
    const gone = { code: 'generation_gone' };
    expect([next.isBetweenUses, next.configured?.session_id]).toEqual([true, 'first']);
    await expect(next.execs.start({ argv: ['true'] })).rejects.toMatchObject(gone);
    await expect(next.files.stat('/workspace')).rejects.toMatchObject(gone);
    await expect(next.configure(first, generation)).rejects.toMatchObject(gone);
    expect((await next.configure({ ...first, session_id: 'second' })).generation).toBe(generation + 1);
    expect((await next.execs.run({ argv: ['ls', '/workspace'] })).stdout).toHaveLength(0);
    await next.close();
    const last = await served.host.open('between');
    expect([last.isBetweenUses, last.configured?.session_id]).toEqual([false, 'second']);
    await last.destroy();
  });

  it('opens nothing again once its process stops', async () => {
    for (const wait of [null, 0]) {
      const session = await served.host.open(`stops-${wait}`);
      const stopped = (promise: Promise<unknown>) =>
        expect(promise).rejects.toMatchObject({ code: 'state_unavailable' });
      const configured = stopped(session.configure(blankConfiguration));
      if (wait !== null) await sleep(wait);
      await session.close();
      if (wait === null) await stopped(session.files.stat('/workspace'));
      await configured;
      await expect(session.files.stat('/workspace')).rejects.toThrow(BoxkiteError);
      await stopped(session.execs.start({ argv: ['true'] }));
      await (await served.host.open(`stops-${wait}`)).destroy();
    }
  });
});
