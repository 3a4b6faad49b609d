/** The measured side of the sidecar's rows: the bundled `boxkite sidecar`, and one keep-alive connection to it. */
import { existsSync } from 'node:fs';
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { startSidecar, type TestSidecar, type TestSidecarOptions } from '@boxkite/testing';
import { MissingPrerequisite } from './row.ts';

const BUNDLE = new URL('../../dist/boxkite.mjs', import.meta.url);
/** Rows make more calls than one use may. */
const UNBOUNDED = { SANDBOX_SESSION_MAX_EXEC_COUNT: '0', SANDBOX_SESSION_MAX_EXEC_SECONDS: '0' };

/** Calls with a sidecar of its own, stopped afterwards. */
export async function withSidecar<Result>(
  use: (sidecar: TestSidecar) => Promise<Result>,
  options: TestSidecarOptions = {},
): Promise<Result> {
  if (!existsSync(BUNDLE)) throw new MissingPrerequisite('dist/boxkite.mjs is missing', 'make bundle');
  const env = { SIDECAR_TLS_DISABLED: 'true', ...UNBOUNDED, ...options.env };
  await using sidecar = await startSidecar({ bundled: true, ...options, env });
  return await use(sidecar);
}

/** How a connection is made. */
export interface ConnectionOptions {
  readonly port: number;
  readonly token: string;
  /** PEM of the certificate that a TLS listener shows. Default: clear text. */
  readonly certificate?: string | undefined;
}

/** A body of JSON that was made before: its making is no part of what is measured. */
export class MadeJson {
  readonly bytes: Buffer;

  constructor(value: object) {
    this.bytes = Buffer.from(JSON.stringify(value));
  }
}

/** One keep-alive connection with one call at a time. */
export class SidecarConnection implements Disposable {
  readonly #agent: Agent;
  readonly #options: RequestOptions;
  readonly #request: typeof request;

  constructor({ port, token, certificate }: ConnectionOptions) {
    const one = { keepAlive: true, maxSockets: 1, noDelay: true };
    this.#agent =
      certificate === undefined
        ? new Agent(one)
        : new TlsAgent({ ...one, ca: certificate, checkServerIdentity: () => undefined });
    this.#request = certificate === undefined ? request : tlsRequest;
    this.#options = { host: '127.0.0.1', port, agent: this.#agent, headers: { 'x-sidecar-auth-token': token } };
  }

  /** The body of an answer below 300. Errors: of the connection, `TypeError` for another status. */
  async call(method: string, path: string, body?: object | Buffer | MadeJson): Promise<Buffer> {
    const chunks: Buffer[] = [];
    await this.stream(method, path, body, (chunk) => chunks.push(chunk));
    return Buffer.concat(chunks);
  }

  /** As `call`, with the body piece by piece. */
  stream(
    method: string,
    path: string,
    body: object | Buffer | MadeJson | undefined,
    onChunk: (chunk: Buffer) => void,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const raw = Buffer.isBuffer(body);
      const bytes = body === undefined || raw ? body : (body instanceof MadeJson ? body : new MadeJson(body)).bytes;
      const type = raw ? 'application/octet-stream' : 'application/json';
      const headers = {
        ...this.#options.headers,
        ...(bytes === undefined ? {} : { 'content-type': type, 'content-length': bytes.length }),
      };
      const sent = this.#request({ ...this.#options, method, path, headers }, (answer: IncomingMessage) => {
        const fine = (answer.statusCode ?? 500) < 300;
        answer.on('data', fine ? onChunk : () => undefined);
        answer.once('error', reject);
        answer.once('end', () => {
          if (fine) resolve();
          else reject(new TypeError(`${method} ${path} was answered ${answer.statusCode}`));
        });
      });
      sent.once('error', reject);
      sent.end(bytes);
    });
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

/** A connection to a sidecar in clear text. */
export function connectionTo({ port, token }: TestSidecar): SidecarConnection {
  return new SidecarConnection({ port, token });
}
