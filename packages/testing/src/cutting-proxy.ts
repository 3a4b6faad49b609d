/** A proxy between a client and a daemon's socket that cuts its connections after so many bytes, or at a request. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One proxy on a socket of its own. */
export class CuttingProxy implements AsyncDisposable {
  /** Path of the Unix socket to connect to. */
  readonly socket: string;
  readonly #server: Server;
  readonly #directory: string;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #every: number | null = null;
  #left = 0;
  #passed = 0;
  #cuts = 0;
  #awaited: { readonly text: string; left: number } | null = null;

  private constructor(server: Server, directory: string, socket: string) {
    this.#server = server;
    this.#directory = directory;
    this.socket = socket;
  }

  /** Starts one before the socket at `target`. */
  static async start(target: string): Promise<CuttingProxy> {
    const directory = await mkdtemp(join(tmpdir(), 'boxkite-proxy-'));
    const path = join(directory, 'proxy.sock');
    const server = createServer();
    const proxy = new CuttingProxy(server, directory, path);
    server.on('connection', (client) => proxy.#join(client, connect(target)));
    server.listen(path);
    await once(server, 'listening');
    return proxy;
  }

  /** Connections cut so far. */
  get cuts(): number {
    return this.#cuts;
  }

  /** Cuts at each `bytes` bytes on their way to clients, `times` times in all; `null`: never. Counting starts anew. */
  cutEvery(bytes: number | null, times: number): void {
    this.#every = bytes;
    this.#left = times;
    this.#passed = 0;
  }

  /** Cuts once, at the `nth` request from now on whose first line has this text; the request does not arrive. */
  cutRequest(text: string, nth: number): void {
    this.#awaited = { text, left: nth };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [client, upstream] of this.#pairs) {
      client.destroy();
      upstream.destroy();
    }
    this.#server.close();
    await rm(this.#directory, { recursive: true, force: true });
  }

  #join(client: Socket, upstream: Socket): void {
    const pair = [client, upstream] as const;
    this.#pairs.add(pair);
    const end = (): void => {
      this.#pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of pair) {
      // Either end may break off; the other one learns it by its own end.
      socket.on('error', end);
      socket.on('close', end);
    }
    // Before the pipe, which then has nobody to hand it to.
    client.on('data', (data) => this.#look(pair, data));
    client.pipe(upstream);
    upstream.on('data', (data) => {
      if (!client.write(data)) {
        upstream.pause();
        client.once('drain', () => upstream.resume());
      }
      this.#count(pair, data.length);
    });
  }

  #count(pair: readonly [Socket, Socket], bytes: number): void {
    if (this.#every === null || this.#left === 0) return;
    this.#passed += bytes;
    if (this.#passed < this.#every) return;
    this.#passed = 0;
    this.#left -= 1;
    this.#cut(pair);
  }

  /** A client begins each request with a piece of its own. */
  #look(pair: readonly [Socket, Socket], data: Uint8Array): void {
    const [line = ''] = new TextDecoder('latin1').decode(data.subarray(0, 1024)).split('\r\n', 1);
    if (this.#awaited === null || !line.endsWith(' HTTP/1.1') || !line.includes(this.#awaited.text)) return;
    this.#awaited.left -= 1;
    if (this.#awaited.left > 0) return;
    this.#awaited = null;
    this.#cut(pair);
  }

  #cut([client, upstream]: readonly [Socket, Socket]): void {
    this.#cuts += 1;
    client.destroy();
    upstream.destroy();
  }
}
