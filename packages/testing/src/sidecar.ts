/** A sidecar for one test, with data and a port of its own: started as an operator starts it, ended in every way. */
import type { ChildProcess } from 'node:child_process';
import { createServer } from 'node:net';
import { sidecarPlaces } from '@boxkite/local/serve';
import { makeDataDirectory, ownPlaces, spawnService, TestService } from './service.ts';

/** How a sidecar is started. */
export interface TestSidecarOptions {
  /** From `dist/` instead of the sources. */
  readonly bundled?: boolean | undefined;
  /** An existing data directory; default: a new one, which is removed at the end. */
  readonly data?: string | undefined;
  /** Port at 127.0.0.1; default: a free one. */
  readonly port?: number | undefined;
  /** `null`: none is set. */
  readonly token?: string | null | undefined;
  /** Further words after `boxkite sidecar`. */
  readonly args?: readonly string[] | undefined;
  /** Further variables. Default: clear text is asked for. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** How a request is sent. */
export interface SidecarCall {
  readonly body?: unknown;
  /** `null` sends none. Default: the sidecar's own. */
  readonly token?: string | null | undefined;
  readonly signal?: AbortSignal | undefined;
}

const TOKEN = 'token-of-a-test-0123456789abcdef';

/** A started sidecar. */
export class TestSidecar extends TestService {
  readonly port: number;
  /** Empty where none was set. */
  readonly token: string;

  constructor(
    child: ChildProcess,
    options: TestSidecarOptions & { readonly data: string; readonly port: number },
    keeps: boolean,
  ) {
    super(child, sidecarPlaces(ownPlaces(options.data)), keeps);
    this.port = options.port;
    this.token = options.token === undefined ? TOKEN : (options.token ?? '');
  }

  /** Of its listener in clear text. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Sends a request over a connection of its own; a body is sent as JSON. */
  call(method: string, path: string, options: SidecarCall = {}): Promise<Response> {
    const { body, token = this.token, signal } = options;
    return fetch(this.url + path, {
      method,
      headers: {
        connection: 'close',
        ...(token === null || token === '' ? {} : { 'x-sidecar-auth-token': token }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  protected async answers(signal: AbortSignal): Promise<boolean> {
    return (await this.call('GET', '/health', { token: null, signal })).status === 200;
  }
}

/** A port of 127.0.0.1 that nobody listens at. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address');
  return address.port;
}

/** Starts `boxkite sidecar` and returns at once. */
export async function launchSidecar(options: TestSidecarOptions = {}): Promise<TestSidecar> {
  const data = options.data ?? makeDataDirectory();
  const port = options.port ?? (await freePort());
  const { token = TOKEN, args = [], env = { SIDECAR_TLS_DISABLED: 'true' } } = options;
  const words = ['sidecar', '--data', data, '--listen', `127.0.0.1:${port}`, ...args];
  const variables = { ...process.env, ...(token === null ? {} : { SIDECAR_AUTH_TOKEN: token }), ...env };
  const child = spawnService(words, options.bundled, variables);
  return new TestSidecar(child, { ...options, data, port }, options.data !== undefined);
}

/** Starts a sidecar and waits until it serves. */
export async function startSidecar(options: TestSidecarOptions = {}): Promise<TestSidecar> {
  const sidecar = await launchSidecar(options);
  try {
    await sidecar.serving();
    return sidecar;
  } catch (error) {
    await sidecar[Symbol.asyncDispose]();
    throw error;
  }
}
