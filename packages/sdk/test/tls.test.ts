/** A server behind TLS: trusted by name and certificate, or not spoken to. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NodeTransport } from '../src/node/http-transport.ts';
import { serverProvider } from '../src/server.ts';
import { sandboxJson } from './v1-server.ts';

let directory: string;
let ca: string;
let port: number;
let requests = 0;
let server: ReturnType<typeof createServer>;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'boxkite-tls-'));
  const [key, certificate] = [join(directory, 'key'), join(directory, 'certificate')];
  const words = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout ${key} -out ${certificate}`;
  execFileSync('openssl', words.split(' '), { stdio: 'ignore' });
  ca = readFileSync(certificate, 'utf8');
  server = createServer({ key: readFileSync(key), cert: ca }, (_request, response) => {
    requests += 1;
    response.end(JSON.stringify(sandboxJson()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as { port: number }).port;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(directory, { recursive: true, force: true });
});

test('its certificate is trusted where it is given', async () => {
  const provider = serverProvider({ url: `https://localhost:${port}/`, ca, apiKey: 'key' });
  expect(await provider.sandboxes.get('a')).toMatchObject({ state: 'ready' });
  await provider.close();
});

test('a WebSocket trusts it too, and no other', async () => {
  const endpoint = { url: `https://localhost:${port}`, socketPath: null, prefix: '' };
  const connect = (transport: NodeTransport) => transport.connect('/attach', 'boxkite.v1');
  // This server refuses it by an answer, which is to say: the connection came about.
  await expect(connect(new NodeTransport(endpoint, { headers: {}, ca }))).rejects.toMatchObject({
    response: { status: 200 },
  });
  const before = requests;
  await expect(connect(new NodeTransport(endpoint, { headers: {} }))).rejects.toMatchObject({ phase: 'connect' });
  expect(requests).toBe(before);
});

test.each([
  ['an unknown certificate', () => ({ url: `https://localhost:${port}` })],
  ['another name', () => ({ url: `https://127.0.0.1:${port}`, ca })],
])('%s ends the connection before anything is sent', async (_what, options) => {
  const before = requests;
  const provider = serverProvider({ ...options(), apiKey: 'key' });
  await expect(provider.sandboxes.get('a')).rejects.toMatchObject({
    code: 'daemon_unreachable',
    hint: expect.stringContaining('NODE_EXTRA_CA_CERTS') as string,
  });
  expect(requests).toBe(before);
});
