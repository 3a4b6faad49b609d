/** Where sandboxes come from: options, then the environment, then a daemon of the user's own, and nobody else's. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseEndpoint } from '../src/http/endpoint.ts';
import { keyBeside, socketBelow } from '../src/node/daemon-socket.ts';
import { Providers } from '../src/provider.ts';
import { findServer } from '../src/server.ts';
import { FakeHandle, FakeProvider, FakeSandbox } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

const KEY = `bxk_live_${'a'.repeat(43)}`;
const uid = process.geteuid?.() ?? 0;

let top: string;
let base: string;
let node: string;
let listening: ReturnType<typeof createServer>;

beforeEach(async () => {
  top = mkdtempSync(join(tmpdir(), 'boxkite-find-'));
  base = join(top, 'boxkite');
  node = join(base, 'daemon', 'node');
  mkdirSync(node, { recursive: true, mode: 0o700 });
  listening = createServer();
  await new Promise<void>((resolve) => listening.listen(join(node, 'boxkite.sock'), resolve));
});
afterEach(async () => {
  await new Promise((resolve) => listening.close(resolve));
  rmSync(top, { recursive: true, force: true });
});

describe('the socket of a daemon', () => {
  test('is found below a directory of the user', () => {
    expect(socketBelow({ uid, bases: ['/nonexistent/boxkite', base] })).toBe(join(node, 'boxkite.sock'));
  });

  test.each([
    ['the base is another’s', () => ({ uid: uid + 1, bases: [base] })],
    ['there is none', () => ({ uid, bases: [join(top, 'other')] })],
    ['the base is relative', () => ({ uid, bases: ['boxkite'] })],
  ])('is not used where %s', (_why, identity) => {
    expect(socketBelow(identity())).toBeNull();
  });

  test.each([0o770, 0o707])('is not used in a directory of mode %o', (mode) => {
    chmodSync(base, mode);
    expect(socketBelow({ uid, bases: [base] })).toBeNull();
    chmodSync(base, 0o700);
    chmodSync(join(base, 'daemon'), mode);
    expect(socketBelow({ uid, bases: [base] })).toBeNull();
  });

  test('is not used where the base is a link, or the parent anybody’s', () => {
    symlinkSync(base, join(top, 'link'));
    expect(socketBelow({ uid, bases: [join(top, 'link')] })).toBeNull();
    chmodSync(top, 0o777);
    expect(socketBelow({ uid, bases: [base] })).toBeNull();
    chmodSync(top, 0o1777);
    expect(socketBelow({ uid, bases: [base] })).not.toBeNull();
  });
});

describe('the key beside it', () => {
  const socket = (): string => join(node, 'boxkite.sock');

  test('is read', () => {
    writeFileSync(join(node, 'key'), `${KEY}\n`, { mode: 0o600 });
    expect(keyBeside(socket())).toBe(KEY);
  });

  test('is not there, no key, too long, or a link', () => {
    expect(keyBeside(socket())).toBeUndefined();
    for (const text of ['x', `${KEY}\r\nx: y`, KEY.repeat(20)]) {
      writeFileSync(join(node, 'key'), text);
      expect(keyBeside(socket())).toBeUndefined();
    }
    rmSync(join(node, 'key'));
    writeFileSync(join(top, 'elsewhere'), KEY);
    symlinkSync(join(top, 'elsewhere'), join(node, 'key'));
    expect(keyBeside(socket())).toBeUndefined();
  });

  if (uid === 0)
    test('is not taken from somebody else than the owner of the directory', () => {
      writeFileSync(join(node, 'key'), KEY);
      chownSync(join(node, 'key'), 4242, 4242);
      expect(keyBeside(socket())).toBeUndefined();
    });
});

describe('a server', () => {
  let server: V1Server;

  beforeEach(async () => {
    server = await V1Server.start(new FakeSandbox(async () => new FakeHandle([])));
  });
  afterEach(() => server[Symbol.asyncDispose]());

  test('of the options goes before the environment’s', async () => {
    const environment = { url: 'unix:///env.sock', apiKey: KEY };
    expect((await findServer({ url: server.url, environment }))?.url).toBe(server.url);
    expect((await findServer({ environment }))?.url).toBe('unix:///env.sock');
    const found = await findServer({ environment: { url: server.url, apiKey: KEY } });
    await found?.sandboxes.get('a');
    expect(server.headers.at(-1)?.authorization).toBe(`Bearer ${KEY}`);
    await found?.close();
  });

  test('that the environment names and that is gone is an error at its first call', async () => {
    const found = await findServer({ environment: { url: 'unix:///nonexistent/s' } });
    await expect(found?.sandboxes.get('a')).rejects.toMatchObject({ code: 'daemon_unreachable' });
  });

  test('that is wrong in the environment is refused', async () => {
    await expect(findServer({ environment: { url: 'http://192.0.2.7' } })).rejects.toMatchObject({
      code: 'invalid_request',
    });
  });

  test('is asked over TCP too', async () => {
    const found = await findServer({ url: server.tcpUrl, apiKey: KEY });
    expect(await found?.sandboxes.get('a')).toMatchObject({ state: 'ready' });
    await found?.close();
  });
});

describe('providers', () => {
  test('are made once for what is the same', async () => {
    const providers = new Providers();
    const [first, second, other] = await Promise.all([
      providers.get({ url: 'unix:///a' }),
      providers.get({ url: 'unix:///a' }),
      providers.get({ url: 'unix:///b' }),
    ]);
    expect(first).toBe(second);
    expect(other).not.toBe(first);
    const own = new FakeProvider(new FakeSandbox(async () => new FakeHandle([])));
    expect(await providers.get({ provider: own, url: 'unix:///a' })).toBe(own);
  });

  test('are servers alone where a daemon is asked for', async () => {
    // One may run for this user.
    const found: unknown = await new Providers().get({ daemon: true }).catch((reason: unknown) => reason);
    if (found instanceof Error) expect(found).toMatchObject({ code: 'daemon_unreachable' });
    else expect(found).toHaveProperty('usage');
  });

  test('can not be both', async () => {
    await expect(
      Promise.resolve().then(() => new Providers().get({ url: 'unix:///a', daemon: false })),
    ).rejects.toMatchObject({
      code: 'invalid_request',
    });
  });
});

test.each([
  ['unix:///run/x.sock', { url: 'unix:///run/x.sock', socketPath: '/run/x.sock', prefix: '' }],
  ['unix:/run/x.sock', { url: 'unix:///run/x.sock', socketPath: '/run/x.sock', prefix: '' }],
  ['http://localhost:8090/', { url: 'http://localhost:8090', socketPath: null, prefix: '' }],
  ['https://host/base/', { url: 'https://host/base', socketPath: null, prefix: '/base' }],
  ['http://[::1]:1', { url: 'http://[::1]:1', socketPath: null, prefix: '' }],
])('%s is a server', (text, endpoint) => {
  expect(parseEndpoint(text)).toEqual(endpoint);
});
