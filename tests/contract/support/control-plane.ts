/** The service that knows the values of secrets, as a sidecar asks it. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One question. */
export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** Answers each question as the test says. */
export class ControlPlane implements AsyncDisposable {
  readonly asked: Asked[] = [];
  readonly #server: Server;
  /** By name. */
  values: Record<string, string> = {};
  /** Instead of a value. */
  answer: ((asked: Asked, response: ServerResponse) => void) | null = null;

  private constructor() {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        const text = Buffer.concat(pieces).toString();
        const { method = '', url = '', headers } = request;
        const asked = { method, url, headers, body: text === '' ? null : (JSON.parse(text) as unknown) };
        this.asked.push(asked);
        if (this.answer !== null) return this.answer(asked, response);
        const name = (asked.body as { secret_name: string }).secret_name;
        const value = this.values[name];
        response.writeHead(value === undefined ? 403 : 200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(value === undefined ? { detail: 'no' } : { value }));
      });
    });
  }

  static async start(): Promise<ControlPlane> {
    const plane = new ControlPlane();
    plane.#server.listen(0, '127.0.0.1');
    await once(plane.#server, 'listening');
    return plane;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }
}
