/** Requests by `fetch` and messages by `WebSocket`: for browsers, and for callers that bring a `fetch` of their own. */
import type { Endpoint, HttpRequest, HttpResponse, MessageChannel, Transport } from './transport.ts';
import { BodyCollector, TransportError, UpgradeRefusedError } from './transport.ts';

/** What is used of a response of `fetch`. */
export interface FetchResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: BodyStream | null;
}

/** What is used of a `ReadableStream` of bytes. */
export interface BodyStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
    cancel(reason?: unknown): Promise<void>;
  };
}

/** How `fetch` is called; the platform's own, or one with the same behaviour. */
export type FetchLike = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: string | Uint8Array<ArrayBuffer>;
    readonly redirect: 'manual';
    readonly credentials: 'omit';
    readonly cache: 'no-store';
    readonly signal?: AbortSignal;
  },
) => Promise<FetchResponse>;

/** How a program without Node reaches a server. */
export interface FetchTransportOptions {
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Subprotocols that tell a server the key, since a browser's WebSocket has no headers. */
  readonly protocols: readonly string[];
  readonly fetch: FetchLike;
}

/** Bytes that may wait in a WebSocket before `send` waits for them. */
const MAX_UNSENT_BYTES = 1024 * 1024;
const UNSENT_POLL_MS = 10;
const CLOSE_NORMAL = 1000;

/** `Transport` over `fetch`. A body that is a stream is put together first: no browser sends one over HTTP/1.1. */
export class FetchTransport implements Transport {
  readonly #base: string;
  readonly #options: FetchTransportOptions;

  constructor(endpoint: Endpoint, options: FetchTransportOptions) {
    this.#base = endpoint.url.replace(/\/$/, '');
    this.#options = options;
  }

  async request(request: HttpRequest): Promise<HttpResponse> {
    const { method, signal } = request;
    const body = await wholeBody(request.body);
    // The connection is not ours to see: whether a failed request was sent is not known.
    const response = await this.#options
      .fetch(this.#base + request.path, {
        method,
        headers: { ...this.#options.headers, ...request.headers },
        redirect: 'manual',
        credentials: 'omit',
        cache: 'no-store',
        ...(body === undefined ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      })
      .catch((error: unknown) => {
        if (signal?.aborted === true) throw signal.reason;
        throw new TransportError('answer', error);
      });
    return new FetchedResponse(response, signal);
  }

  connect(path: string, protocol: string, signal?: AbortSignal): Promise<MessageChannel> {
    const url = this.#base.replace(/^http/, 'ws') + path;
    const socket = new WebSocket(url, [protocol, ...this.#options.protocols]);
    socket.binaryType = 'arraybuffer';
    return opened(socket, signal);
  }

  close(): void {
    // Connections are the platform's.
  }
}

async function wholeBody(body: HttpRequest['body']): Promise<string | Uint8Array<ArrayBuffer> | undefined> {
  if (body === undefined || typeof body === 'string') return body;
  const parts = new BodyCollector(Number.POSITIVE_INFINITY);
  if (body instanceof Uint8Array) parts.push(body);
  else for await (const part of body) parts.push(part);
  return new Uint8Array(parts.finish());
}

class FetchedResponse implements HttpResponse {
  readonly status: number;
  readonly #response: FetchResponse;
  readonly #signal: AbortSignal | undefined;
  readonly #reader: ReturnType<BodyStream['getReader']> | null;

  constructor(response: FetchResponse, signal: AbortSignal | undefined) {
    this.status = response.status;
    this.#response = response;
    this.#signal = signal;
    this.#reader = response.body?.getReader() ?? null;
  }

  header(name: string): string | null {
    return this.#response.headers.get(name);
  }

  trailer(): null {
    return null;
  }

  get body(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async bytes(most: number): Promise<Uint8Array> {
    const parts = new BodyCollector(most);
    for await (const part of this.#read()) parts.push(part);
    return parts.finish();
  }

  discard(): void {
    // One that has failed already has nothing to cancel.
    this.#reader?.cancel().catch(() => undefined);
  }

  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = this.#reader;
    if (reader === null) return;
    let ended = false;
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          if (this.#signal?.aborted === true) throw this.#signal.reason;
          throw new TransportError('cut', error);
        });
        if (done) break;
        if (value !== undefined) yield value;
      }
      ended = true;
    } finally {
      if (!ended) this.discard();
    }
  }
}

function opened(socket: WebSocket, signal: AbortSignal | undefined): Promise<MessageChannel> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      socket.close();
      reject(signal?.reason as Error);
    };
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
    const settle = (): void => signal?.removeEventListener('abort', abort);
    socket.addEventListener('open', () => {
      settle();
      resolve(new SocketChannel(socket));
    });
    socket.addEventListener('error', () => {
      settle();
      // A browser says neither the status nor the body of a refusal.
      reject(new UpgradeRefusedError(null));
    });
  });
}

class SocketChannel implements MessageChannel {
  readonly #socket: WebSocket;
  #waiting: Uint8Array[] = [];
  #wake: (() => void) | null = null;
  #end: { readonly error: TransportError | null } | null = null;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', (event) => {
      if (event.data instanceof ArrayBuffer) this.#waiting.push(new Uint8Array(event.data));
      this.#awake();
    });
    socket.addEventListener('close', (event) => {
      const cut = new TransportError('cut', new Error(`the connection was closed (${event.code})`));
      this.#end = { error: event.code === CLOSE_NORMAL ? null : cut };
      this.#awake();
    });
  }

  get messages(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async send(message: Uint8Array): Promise<void> {
    if (this.#socket.readyState !== WebSocket.OPEN) throw new TransportError('cut', new Error('it is not open'));
    this.#socket.send(new Uint8Array(message));
    while (this.#socket.bufferedAmount > MAX_UNSENT_BYTES && this.#end === null)
      await new Promise((resolve) => setTimeout(resolve, UNSENT_POLL_MS));
  }

  close(): void {
    this.#socket.close(CLOSE_NORMAL);
  }

  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const ready = this.#waiting;
        this.#waiting = [];
        yield* ready;
        if (this.#waiting.length > 0) continue;
        if (this.#end !== null) {
          if (this.#end.error !== null) throw this.#end.error;
          return;
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.close();
    }
  }

  #awake(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
