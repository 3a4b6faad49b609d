/** What carries requests to a server: Node's own client, or `fetch` where there is nothing else. */

/** One request; nothing in it is encoded or checked further on. */
export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Path with query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** It can't be sent again: an idle connection is not used before the news of its end would have been seen. */
  readonly careful?: boolean | undefined;
  /** Aborting ends the connection of the request; the call then fails with the signal's reason as it is. */
  readonly signal?: AbortSignal | undefined;
}

/** The answer to a request. Its body is read once, by one of the ways; `discard` where it is not read to its end. */
export interface HttpResponse {
  readonly status: number;
  header(name: string): string | null;
  /** A header that came behind the body, once that is read; `null` where the transport shows none. */
  trailer(name: string): string | null;
  /** Bytes as they come. Leaving the loop ends the connection. Errors: `TransportError` with `cut`. */
  readonly body: AsyncIterable<Uint8Array>;
  /** The whole body. Errors: `TransportError` with `cut`; `ResponseTooLargeError` above `most` bytes. */
  bytes(most: number): Promise<Uint8Array>;
  /** Ends the connection, and with it the reading of the body. */
  discard(): void;
}

/** A connection for messages both ways. */
export interface MessageChannel {
  /** Resolves when the bytes are handed on to the system. Errors: `TransportError` with `cut`. */
  send(message: Uint8Array): Promise<void>;
  /** Messages in their order, once; the end of the iteration is an orderly close by the server. */
  readonly messages: AsyncIterable<Uint8Array>;
  close(): void;
}

/** Carries requests to one server. */
export interface Transport {
  /** Errors: `TransportError`. A redirect is an answer like others; none is followed. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** A WebSocket to a path. Errors: `TransportError`; `UpgradeRefusedError` where the server answers otherwise. */
  connect(path: string, protocol: string, signal?: AbortSignal): Promise<MessageChannel>;
  /** Ends idle connections. */
  close(): void;
}

/**
 * Where a connection failed: `connect`: nothing of the request was sent; `answer`: it may have been received, and no
 * answer came; `cut`: the answer had begun.
 */
export type FailedPhase = 'connect' | 'answer' | 'cut';

/** A connection failed. Never leaves the SDK: its callers get `daemon_unreachable` or `connection_lost`. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly phase: FailedPhase;

  constructor(phase: FailedPhase, cause: unknown) {
    super(`the connection failed (${phase})`, { cause });
    this.phase = phase;
  }
}

/** An answer is longer than whoever asked can take. */
export class ResponseTooLargeError extends Error {
  override readonly name = 'ResponseTooLargeError';
}

/** The server answered a request for a WebSocket by an answer like any other. */
export class UpgradeRefusedError extends Error {
  override readonly name = 'UpgradeRefusedError';
  /** `null` where the platform does not say it. */
  readonly response: { readonly status: number; readonly body: Uint8Array } | null;

  constructor(response: { readonly status: number; readonly body: Uint8Array } | null) {
    super('the server refused the WebSocket');
    this.response = response;
  }
}

/** Where a server listens. */
export interface Endpoint {
  /** `unix:///path`, `http://host:port` or `https://host:port/prefix`: as people see it, without a key. */
  readonly url: string;
  /** Path of the socket; `null` for TCP. */
  readonly socketPath: string | null;
  /** Before every path; no slash at its end. */
  readonly prefix: string;
}

/** Puts the parts of a body together, as far as `most` bytes. */
export class BodyCollector {
  readonly #most: number;
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Errors: `ResponseTooLargeError`. */
  push(part: Uint8Array): void {
    this.#length += part.length;
    if (this.#length > this.#most) throw new ResponseTooLargeError(`the answer has more than ${this.#most} bytes`);
    this.#parts.push(part);
  }

  finish(): Uint8Array {
    const [only] = this.#parts;
    if (only !== undefined && this.#parts.length === 1) return only;
    const whole = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}
