/** Who is let in: every route of the running app, WebSockets too, without a token, with a wrong one, and with none to know. */
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { createLogger, type Listening, listen } from '@boxkite/kit';
import { createSidecar, type Session, SessionRegistry } from '@boxkite/sidecar/app';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SessionHost } from './support/sessions.ts';

const TOKEN = randomBytes(32).toString('base64url');
const PLACEHOLDER = 'CHANGEME-generate-a-random-per-pod-secret-see-comment-above';
const closing = new AbortController();

let host: SessionHost;
let session: Session;
const apps: { close(): Promise<void> }[] = [];
/** Every method and path that the app has. */
const routes: (readonly [method: string, path: string])[] = [];
let configured: number;
let unconfigured: number;

async function serve(registry: SessionRegistry): Promise<number> {
  const app = createSidecar(registry, { closing: closing.signal, only: session, logger: createLogger(null, String) });
  const found: typeof routes = [];
  app.addHook('onRoute', ({ method, url }) => {
    for (const name of [method].flat()) found.push([name, url]);
  });
  const listening: Listening = await listen(app, [{ on: { host: '127.0.0.1', port: 0 } }]);
  apps.push({ close: async () => void (await Promise.all([listening.close(), app.close()])) });
  routes.splice(0, routes.length, ...found);
  const address = listening.servers[0]?.address();
  if (address === null || typeof address !== 'object') throw new Error('a TCP server has an address');
  return address.port;
}

beforeAll(async () => {
  host = await SessionHost.start();
  session = await host.open('one');
  const registry = new SessionRegistry();
  registry.add(TOKEN, session);
  configured = await serve(registry);
  unconfigured = await serve(new SessionRegistry());
});
afterAll(async () => {
  closing.abort();
  await Promise.all(apps.map((app) => app.close()));
  await host[Symbol.asyncDispose]();
});

/** The status line and body of the answer to a request, byte for byte as it is given. */
function raw(port: number, head: string, token: Buffer | null, body = ''): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    socket.once('error', reject);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      // A connection that may go on is not waited for.
      if (!head.includes('connection: close')) socket.end();
    });
    socket.once('close', () => {
      const text = Buffer.concat(chunks).toString('latin1');
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0), text });
    });
    const header = token === null ? [] : [Buffer.from('x-sidecar-auth-token: '), token, Buffer.from('\r\n')];
    const length = body === '' ? '' : `content-length: ${body.length}\r\ncontent-type: application/json\r\n`;
    socket.write(Buffer.concat([Buffer.from(`${head}host: x\r\n${length}`), ...header, Buffer.from(`\r\n${body}`)]));
  });
}

const UPGRADE =
  'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n';

function requestOf(method: string, path: string): string {
  return `${method} ${path.replaceAll(/:[a-z_]+/g, 'x').replaceAll('*', 'x')} HTTP/1.1\r\n`;
}

/** Statuses by what was asked for. */
async function ask(port: number, tokens: readonly (string | null)[]): Promise<ReadonlyMap<string, number>> {
  const statuses = new Map<string, number>();
  for (const [method, path] of routes) {
    for (const token of tokens) {
      const bytes = token === null ? null : Buffer.from(token);
      const body = method === 'GET' || method === 'HEAD' ? '' : '{not json';
      const plain = await raw(port, `${requestOf(method, path)}connection: close\r\n`, bytes, body);
      statuses.set(`${method} ${path} ${token}`, plain.status);
      if (method !== 'GET') continue;
      const upgraded = await raw(port, requestOf(method, path) + UPGRADE, bytes).catch(() => ({ status: 0 }));
      statuses.set(`WS ${path} ${token}`, upgraded.status);
      const elsewhere = await raw(port, requestOf(method, `${path}?x=/attach`) + UPGRADE, bytes).catch(() => null);
      statuses.set(`WS ${path}?x=/attach ${token}`, elsewhere?.status ?? 0);
    }
  }
  return statuses;
}

function notOf(statuses: ReadonlyMap<string, number>, status: number): readonly string[] {
  return [...statuses]
    .filter(([name, found]) => found !== status && !/^(GET|WS) \/health[ ?]/.test(name))
    .map(([name, found]) => `${name}: ${found}`);
}

describe('every route of the app', () => {
  it('asks for the token, whatever else is wrong, and before it upgrades', async () => {
    const statuses = await ask(configured, [null, '', 'wrong', `${TOKEN}x`, PLACEHOLDER]);
    expect(notOf(statuses, 401)).toEqual([]);
    // The hook has seen them: what the sidecar has alone, what it shares, and a WebSocket.
    const names = [...statuses.keys()].join('\n');
    for (const known of ['POST /configure', 'GET /metrics', 'PUT /files/content', 'WS /execs/:eid/attach'])
      expect(names).toContain(`${known} null`);
  });

  it('is 503 where no token is configured, with the placeholder too', async () => {
    expect(notOf(await ask(unconfigured, [null, 'wrong', TOKEN, PLACEHOLDER]), 503)).toEqual([]);
  });

  it('is opened by the token', async () => {
    for (const [method, path] of routes.filter(([name]) => name === 'GET')) {
      const { status } = await raw(configured, `${requestOf(method, path)}connection: close\r\n`, Buffer.from(TOKEN));
      expect([path, status]).not.toEqual([path, 401]);
    }
  });
});

describe('a token', () => {
  it.each([
    ['bytes beyond ASCII', Buffer.from([0xfc, 0xff, 0x80])],
    ['UTF-8', Buffer.from('schl\u00fcssel')],
    ['a tab within', Buffer.from('a\tb')],
    ['64 KiB', Buffer.alloc(20_000, 'x')],
  ])('of %s is a wrong one', async (_what, token) => {
    const { status, text } = await raw(configured, 'POST /exec HTTP/1.1\r\nconnection: close\r\n', token, '{}');
    expect(status).toBe(401);
    expect(text).toContain('"unauthorized"');
  });

  it('sent twice is a wrong one, whichever of the two is right', async () => {
    const twice = `POST /exec HTTP/1.1\r\nconnection: close\r\nx-sidecar-auth-token: ${TOKEN}\r\n`;
    expect((await raw(configured, twice, Buffer.from('wrong'), '{}')).status).toBe(401);
    expect((await raw(configured, twice, Buffer.from(TOKEN), '{}')).status).toBe(401);
  });

  it('counts with blanks around it', async () => {
    const head = 'GET /execs HTTP/1.1\r\nconnection: close\r\n';
    expect((await raw(configured, head, Buffer.from(`  ${TOKEN} \t`))).status).toBe(200);
  });
});

it.each(['?/attach', '?x=/attach?', '?x=/execs/x/attach/', '#/attach', '?#/attach'])(
  'nothing is upgraded at %s of a route that has no WebSocket',
  async (rest) => {
    for (const path of ['/health', '/metrics', '/execs', '/files/content']) {
      for (const token of [null, Buffer.from(TOKEN)]) {
        const head = `GET ${path}${rest} HTTP/1.1\r\n${UPGRADE}`;
        const plain = await raw(configured, `GET ${path}${rest} HTTP/1.1\r\nconnection: close\r\n`, token);
        const { status } = await raw(configured, head, token);
        expect([path, status]).toEqual([path, plain.status]);
      }
    }
  },
);

it('an expectation that nobody knows is no way around the token', async () => {
  const head = 'POST /exec HTTP/1.1\r\nconnection: close\r\nexpect: something\r\n';
  const { status, text } = await raw(configured, head, null, '{}');
  expect(status).toBe(401);
  expect(text).toContain('"unauthorized"');
});

it('health is open, and its neighbours are not', async () => {
  const at = (path: string, method = 'GET') =>
    raw(configured, `${method} ${path} HTTP/1.1\r\nconnection: close\r\n`, null).then(({ status }) => status);
  expect(await Promise.all(['/health', '/health?x=1'].map((path) => at(path)))).toEqual([200, 200]);
  expect(
    await Promise.all(['/health/', '//health', '/Health', '/%68ealth', '/health/..', '/x'].map((path) => at(path))),
  ).toEqual([401, 401, 401, 401, 401, 401]);
  expect(await Promise.all(['POST', 'HEAD', 'OPTIONS', 'DELETE'].map((method) => at('/health', method)))).toEqual([
    401, 401, 401, 401,
  ]);
});
