/** Passes requests on to another server and keeps what went both ways. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request and its answer, as they were on the wire. */
export interface Exchange {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in their order, as they were written. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
  /** 0: the connection broke. */
  readonly status: number;
  readonly answer: string;
}

async function textOf(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** A server between a client and its sidecar. */
export class RecordingProxy implements AsyncDisposable {
  readonly #server: Server;
  #exchanges: Exchange[] = [];

  private constructor(upstream: string) {
    this.#server = createServer((incoming, outgoing) => {
      this.#pass(upstream, incoming)
        .then(({ status, headers, body }) => outgoing.writeHead(status, headers).end(body))
        // The client sees what a sidecar that has gone shows: a connection that breaks.
        .catch(() => incoming.socket.destroy());
    });
  }

  /** Listens on a free port of 127.0.0.1; `upstream` is `http://HOST:PORT`. */
  static async start(upstream: string): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(upstream);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What was exchanged since the last call, in the order of the answers. */
  take(): readonly Exchange[] {
    const taken = this.#exchanges;
    this.#exchanges = [];
    return taken;
  }

  async #pass(upstream: string, incoming: IncomingMessage) {
    const body = await textOf(incoming);
    const { method = 'GET', url = '/', headers, rawHeaders } = incoming;
    const known = { method, url, headers, rawHeaders, body: body.toString() };
    const sent = request(upstream + url, { method, headers, agent: false });
    sent.end(body);
    const answered = once(sent, 'response').catch((error: unknown) => {
      this.#exchanges.push({ ...known, status: 0, answer: '' });
      throw error;
    });
    const [answer] = (await answered) as [IncomingMessage];
    const whole = await textOf(answer);
    const status = answer.statusCode ?? 0;
    this.#exchanges.push({ ...known, status, answer: whole.toString() });
    const { connection: _hop, 'transfer-encoding': _coding, ...rest } = answer.headers;
    return { status, headers: { ...rest, 'content-length': String(whole.length) }, body: whole };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
