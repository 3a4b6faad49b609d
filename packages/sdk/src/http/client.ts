/** Calls of `/v1`: retries where they are safe, answers checked, failures as the SDK's errors. */
import { BoxkiteError, BoxkiteWireError, errorRegistry, isErrorCode } from '@boxkite/protocol';
import { pause, retryDelay } from './backoff.ts';
import type { HttpRequest, HttpResponse, MessageChannel, Transport } from './transport.ts';
import { ResponseTooLargeError, TransportError, UpgradeRefusedError } from './transport.ts';

/**
 * Whether a call may be sent again after its connection failed. `repeatable`: it gives the same end twice. `keyed`: its
 * Idempotency-Key lets the server do it once. `once`: only where nothing of it was sent.
 */
export type Repeat = 'repeatable' | 'keyed' | 'once';

/** One call. */
export interface Call extends Pick<HttpRequest, 'method' | 'path' | 'signal'> {
  readonly repeat: Repeat;
  /** Told when the call is sent again though the first one may have been done. */
  readonly onRepeat?: (() => void) | undefined;
  readonly json?: unknown;
  /** Sent as `application/octet-stream` unless `type` says otherwise. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly type?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A schema of the protocol. */
export interface Schema<T> {
  safeParse(
    value: unknown,
  ): { readonly success: true; readonly data: T } | { readonly success: false; readonly error: unknown };
}

const MAX_ATTEMPTS = 5;
const ALIVE_MS = 2;
const MAX_QUEUED_ATTEMPTS = 20;
const MAX_FAILURE_BYTES = 1024 * 1024;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** Longest wait that an answer may ask for; a longer one is its caller's decision. */
const MAX_RETRY_AFTER_MS = 10_000;

/** Client of one server. */
export class HttpClient {
  readonly #transport: Transport;
  /** As people see it, without a key. */
  readonly url: string;
  /** What its calls are refused with, once there is something. */
  readonly #refusal: () => BoxkiteError | null;
  #keys = 0;
  #keyPrefix: string | null = null;
  #answered = Number.NEGATIVE_INFINITY;

  constructor(transport: Transport, url: string, refusal: () => BoxkiteError | null = () => null) {
    this.#transport = transport;
    this.url = url;
    this.#refusal = refusal;
  }

  /** One over the same connections, whose calls are refused once `refusal` says so. */
  guardedBy(refusal: () => BoxkiteError | null): HttpClient {
    return new HttpClient(this.#transport, this.url, refusal);
  }

  /** Whether the server was alive a moment ago, so that the end of its connections is hardly what the next call meets. */
  get justAnswered(): boolean {
    return performance.now() - this.#answered < ALIVE_MS;
  }

  /** A key that no other call has. */
  idempotencyKey(): string {
    this.#keyPrefix ??= globalThis.crypto.getRandomValues(new Uint32Array(4)).join('-');
    this.#keys += 1;
    return `${this.#keyPrefix}-${this.#keys}`;
  }

  /** The answer of a call that succeeded; its body is still to be read. */
  open(call: Call): Promise<HttpResponse> {
    return this.#repeat(call, async (response) => response);
  }

  /** The JSON of an answer as `check` returns it. */
  read<T>(call: Call, check: (value: unknown, response: HttpResponse) => T, most = MAX_ANSWER_BYTES): Promise<T> {
    return this.#repeat(call, async (response) => {
      const bytes = await response.bytes(most);
      return check(this.#parsed(bytes), response);
    });
  }

  /** The JSON of an answer by its schema. */
  json<T>(call: Call, schema: Schema<T>): Promise<T> {
    return this.read(call, (value) => this.#checked(value, schema));
  }

  /** A value of JSON beside a body. Errors: `unexpected_answer`. */
  parsed<T>(text: string, schema: Schema<T>): T {
    return this.#checked(this.#parsed(text), schema);
  }

  #checked<T>(value: unknown, schema: Schema<T>): T {
    const checked = schema.safeParse(value);
    if (checked.success) return checked.data;
    throw this.unexpected('is not of the shape that it has to be', checked.error);
  }

  /** A call whose answer says nothing but that it is done. */
  done(call: Call): Promise<void> {
    return this.#repeat(call, async (response) => {
      await response.bytes(MAX_ANSWER_BYTES);
    });
  }

  /** A WebSocket. Errors: as of calls. */
  async connect(path: string, protocol: string, signal?: AbortSignal): Promise<MessageChannel> {
    this.#check();
    try {
      return await this.#transport.connect(path, protocol, signal);
    } catch (error) {
      if (error instanceof UpgradeRefusedError && error.response !== null)
        throw this.#failure(error.response.status, error.response.body);
      throw error instanceof UpgradeRefusedError ? this.unexpected('refuses a WebSocket') : error;
    }
  }

  #check(): void {
    const refusal = this.#refusal();
    if (refusal !== null) throw refusal;
  }

  close(): void {
    this.#transport.close();
  }

  /** The error for an answer that no boxkite server gives. */
  unexpected(what: string, cause?: unknown): BoxkiteError {
    return new BoxkiteError('unexpected_answer', `the answer of ${this.url} ${what}`, { cause });
  }

  /** What a caller gets for a failure of the connection, or an abort. */
  explain(error: unknown, signal: AbortSignal | undefined): unknown {
    if (error instanceof ResponseTooLargeError) return this.unexpected('is too large', error);
    if (error instanceof BoxkiteError || error instanceof BoxkiteWireError) return error;
    if (signal?.aborted === true)
      return new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
    if (!(error instanceof TransportError)) return error;
    if (error.phase === 'connect') {
      const code = errnoOf(error.cause);
      const hint = hintFor(code);
      return new BoxkiteError('daemon_unreachable', `${this.url} can't be reached${code === '' ? '' : ` (${code})`}`, {
        ...(hint === undefined ? {} : { hint }),
        details: { url: this.url },
        cause: error,
      });
    }
    return new BoxkiteError('connection_lost', `the connection to ${this.url} ended before the answer`, {
      details: { url: this.url },
      cause: error,
    });
  }

  async #repeat<T>(call: Call, take: (response: HttpResponse) => Promise<T>): Promise<T> {
    this.#check();
    const request = requestOf(call, call.repeat === 'once' && !this.justAnswered);
    const tries: Tries = { cuts: 0, refusals: 0, polls: 0 };
    for (;;) {
      try {
        const response = await this.#transport.request(request);
        this.#answered = performance.now();
        if (response.status >= 200 && response.status < 300) return await take(response);
        await this.#refused(call, response, tries);
      } catch (error) {
        if (!(error instanceof TransportError) || !mayRepeat(call, error, tries.cuts))
          throw this.explain(error, call.signal);
        tries.cuts += 1;
        if (error.phase !== 'connect') call.onRepeat?.();
        await pause(retryDelay(tries.cuts), call.signal);
      }
    }
  }

  /** Throws what the server says, unless the call may be sent again: then it waits until it is time. */
  async #refused(call: Call, response: HttpResponse, tries: Tries): Promise<void> {
    const failure = this.#failure(response.status, await response.bytes(MAX_FAILURE_BYTES));
    if (isStream(call.body)) throw failure;
    if (call.repeat === 'keyed' && tries.cuts > 0 && failure.code === 'idempotency_key_in_progress') {
      // What was sent before the cut is being done: its answer will be this call's.
      tries.polls += 1;
      await pause(retryDelay(tries.polls), call.signal);
      return;
    }
    // The server ended in between, and can't know how far the first call came.
    if (call.repeat === 'keyed' && tries.cuts > 0 && failure.code === 'conflict')
      throw this.explain(new TransportError('answer', failure), call.signal);
    tries.refusals += 1;
    if (!failure.retryable || tries.refusals >= MAX_ATTEMPTS) throw failure;
    const after = Number(response.header('retry-after') ?? Number.NaN) * 1000;
    if (Number.isNaN(after) ? response.status !== 503 || call.repeat === 'once' : after > MAX_RETRY_AFTER_MS)
      throw failure;
    await pause(Number.isNaN(after) ? retryDelay(tries.refusals) : after, call.signal);
  }

  #failure(status: number, body: Uint8Array): BoxkiteWireError | BoxkiteError {
    const error = errorOf(body);
    if (error !== null && status >= 400) return new BoxkiteWireError(status, error);
    const what = status >= 300 && status < 400 ? 'is a redirect, and none is followed' : `has the status ${status}`;
    return this.unexpected(`${what} and is no answer of boxkite`);
  }

  #parsed(answer: Uint8Array | string): unknown {
    try {
      return JSON.parse(typeof answer === 'string' ? answer : new TextDecoder().decode(answer));
    } catch (error) {
      throw this.unexpected('is no JSON', error);
    }
  }
}

function requestOf(call: Call, careful: boolean): HttpRequest {
  const { method, path, signal, json, body } = call;
  if (json !== undefined) {
    const headers = { 'content-type': 'application/json', ...call.headers };
    return { method, path, signal, headers, body: jsonText(json), careful };
  }
  const type = body === undefined ? {} : { 'content-type': call.type ?? 'application/octet-stream' };
  return { method, path, signal, headers: { ...type, ...call.headers }, body, careful };
}

interface Tries {
  cuts: number;
  refusals: number;
  polls: number;
}

/** A stream has been consumed when its call fails. */
function isStream(body: Call['body']): boolean {
  return body !== undefined && !(body instanceof Uint8Array);
}

function mayRepeat(call: Call, error: TransportError, cuts: number): boolean {
  if (call.signal?.aborted === true || isStream(call.body)) return false;
  if (error.phase !== 'connect') return call.repeat !== 'once' && cuts + 1 < MAX_ATTEMPTS;
  // A socket whose queue is full, while the daemon starts again say, is waited for longer.
  return isTransient(error.cause) && cuts + 1 < (isQueueFull(error.cause) ? MAX_QUEUED_ATTEMPTS : MAX_ATTEMPTS);
}

function isQueueFull(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'EAGAIN';
}

const LASTING = new Set(['ENOENT', 'EACCES', 'EPERM', 'ENOTSOCK', 'ENOTFOUND']);

/** Whether a connection that was refused may come about in a moment; a certificate or a name stays wrong. */
function isTransient(cause: unknown): boolean {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  return typeof code !== 'string' || (!LASTING.has(code) && !/CERT|SSL|TLS/.test(code));
}

function errnoOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
}

/** Where it is not that nobody is there. */
function hintFor(code: string): string | undefined {
  if (code === 'EACCES')
    return 'The socket is that of another user; use a daemon of your own, or ask for an address and a key.';
  if (/CERT|^UNABLE_TO_/.test(code)) {
    return 'Its certificate is not trusted here: give its authority by `ca` or NODE_EXTRA_CA_CERTS, and a name that it is for.';
  }
  return undefined;
}

/** A server's error; a newer one may have codes and fields that this client does not know. */
function errorOf(body: Uint8Array): ConstructorParameters<typeof BoxkiteWireError>[1] | null {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(body));
  } catch {
    // Not JSON: the answer of something else.
    return null;
  }
  const error = isObject(value) ? value['error'] : undefined;
  if (!isObject(error)) return null;
  const { code, message, hint, retryable, details } = error;
  if (typeof code !== 'string' || typeof message !== 'string') return null;
  const known = isErrorCode(code) ? errorRegistry[code] : { hint: '', retryable: false };
  return {
    error: {
      code,
      message,
      hint: typeof hint === 'string' ? hint : known.hint,
      retryable: typeof retryable === 'boolean' ? retryable : known.retryable,
      details: isObject(details) ? (details as BoxkiteWireError['details']) : {},
    },
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON has no NaN and no infinity: it would say `null`, which the server takes for nothing at all. */
function jsonText(value: unknown): string {
  return JSON.stringify(value, (field, part: unknown) => {
    if (typeof part !== 'number' || Number.isFinite(part)) return part;
    throw new BoxkiteError('invalid_request', `${field} is to be a finite number`, { details: { field } });
  });
}
