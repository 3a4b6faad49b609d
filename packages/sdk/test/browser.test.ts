/** What runs without Node: the bundle for a browser holds nothing of it, and `fetch` and `WebSocket` carry every call. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { platform as browser } from '../src/browser/platform.ts';
import { FetchTransport } from '../src/http/fetch-transport.ts';
import { HttpProvider } from '../src/http/provider.ts';
import { Sandbox } from '../src/sandbox.ts';
import { FakeHandle, FakeSandbox, record, script } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

let server: V1Server;
let handle: FakeHandle;

beforeEach(async () => {
  handle = new FakeHandle(script([Buffer.from('one'), Buffer.from('two')], record()));
  server = await V1Server.start(
    new FakeSandbox(async () => handle, {
      ...new FakeSandbox(async () => handle).files,
      read: async function* () {
        yield new Uint8Array(100_000).fill(5);
        yield new Uint8Array(100_000).fill(6);
      },
    }),
  );
});
afterEach(() => server[Symbol.asyncDispose]());

test('a bundle for a browser has no module of Node and no local runner', async () => {
  await using build = await rolldown({
    input: join(import.meta.dirname, '..', 'src', 'index.ts'),
    platform: 'browser',
    external: [/^node:/],
    resolve: { conditionNames: ['browser', 'import', 'default'] },
    tsconfig: false,
    logLevel: 'silent',
  });
  const { output } = await build.generate({ format: 'esm' });
  const text = output.map((chunk) => (chunk.type === 'chunk' ? chunk.code : '')).join('\n');
  expect(text).toContain('class Sandbox');
  expect(text.match(/["']node:[a-z/]+["']/g)).toBeNull();
  const modules = output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []));
  expect(modules.filter((id) => /packages\/(?:local|runner-client)\/|src\/node\//.test(id))).toEqual([]);
  expect(modules.some((id) => id.endsWith('src/browser/platform.ts'))).toBe(true);
});

test('what a program brings as fetch carries every call', async () => {
  const urls: string[] = [];
  const sandbox = await Sandbox.create({
    url: server.tcpUrl,
    fetch: (url, init) => {
      urls.push(`${init.method} ${url}`);
      expect(init.redirect).toBe('manual');
      return fetch(url, init);
    },
  });
  expect((await sandbox.exec('x')).stdout).toBe('onetwo');
  expect((await sandbox.files.readBytes('x')).length).toBe(200_000);
  expect(urls.length).toBe(3);
  await expect(
    Sandbox.create({ url: server.tcpUrl, fetch: () => Promise.reject(new TypeError('offline')) }),
  ).rejects.toMatchObject({ code: 'connection_lost' });
  await expect(Sandbox.create({ url: server.url, fetch })).rejects.toMatchObject({ code: 'invalid_request' });
});

test('certificates that nothing would check are refused', async () => {
  const endpoint = { url: server.tcpUrl, socketPath: null, prefix: '' };
  const refused = { details: { field: 'ca' } };
  await expect(Sandbox.create({ url: server.tcpUrl, fetch, ca: 'x' })).rejects.toMatchObject(refused);
  await expect(browser.openTransport(endpoint, { apiKey: undefined, ca: 'x' })).rejects.toMatchObject(refused);
  expect(server.seen).toEqual([]);
});

test('a WebSocket that is cancelled before it is opened is not opened', async () => {
  const endpoint = { url: server.tcpUrl, socketPath: null, prefix: '' };
  const transport = new FetchTransport(endpoint, { headers: {}, protocols: [], fetch });
  const signal = AbortSignal.abort('cancelled');
  await expect(transport.connect('/v1/sandboxes/a/execs/1/attach', 'boxkite.v1', signal)).rejects.toBe('cancelled');
});

test('the platform’s WebSocket attaches, and tells the key as a subprotocol', async () => {
  const endpoint = { url: server.tcpUrl, socketPath: null, prefix: '' };
  const transport = new FetchTransport(endpoint, { headers: {}, protocols: ['bearer.key'], fetch });
  const copy = { check: async () => undefined, copyIn: async () => undefined };
  const provider = new HttpProvider({ transport, url: server.tcpUrl, copy });
  const sandbox = await Sandbox.create({ provider });
  const { exec_id } = await sandbox.execs.start('x', { tty: { columns: 80, rows: 24 } });
  const stream = sandbox.attach(exec_id);
  let text = '';
  for await (const event of stream) if (event.type === 'output') text += event.text;
  expect(text).toBe('onetwo');
  expect(server.headers.at(-1)?.['sec-websocket-protocol']).toBe('boxkite.v1, bearer.key');
});

test('the root entry names no module of Node', () => {
  const text = readFileSync(join(import.meta.dirname, '..', 'src', 'index.ts'), 'utf8');
  expect(text).not.toContain('node:');
});
