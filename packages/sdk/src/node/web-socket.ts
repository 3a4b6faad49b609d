/**
 * The client's side of RFC 6455 over a connection of node:http, for binary messages: Node's own WebSocket reaches no Unix
 * socket, can't set a header and knows no back-pressure.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { request as httpRequest, IncomingMessage, RequestOptions } from 'node:http';
import type { Duplex } from 'node:stream';
import type { MessageChannel } from '../http/transport.ts';
import { BodyCollector, TransportError, UpgradeRefusedError } from '../http/transport.ts';
import { FrameReader, frame, OPCODE } from './web-socket-frames.ts';

/** RFC 6455, section 1.3. */
const ACCEPT_SALT = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const MAX_REFUSAL_BYTES = 1024 * 1024;
/** Bytes of messages that wait for their reader before the connection is no longer read. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
const UPGRADE_MS = 30_000;
const CLOSE_NORMAL = 1000;
const CLOSE_MS = 1000;

/** Errors: `TransportError`; `UpgradeRefusedError` with the server's answer. */
export function openWebSocket(
  send: typeof httpRequest,
  options: RequestOptions,
  protocol: string,
  signal?: AbortSignal,
): Promise<MessageChannel> {
  const { promise, resolve, reject } = Promise.withResolvers<MessageChannel>();
  if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
  const key = randomBytes(16).toString('base64');
  const request = send({
    ...options,
    headers: {
      ...(options.headers as Record<string, string>),
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': key,
      'sec-websocket-protocol': protocol,
    },
  });
  let connected = false;
  let refused = false;
  const fail = (error: unknown): void => {
    if (signal?.aborted === true) reject(signal.reason as Error);
    else reject(new TransportError(connected ? 'answer' : 'connect', error));
  };
  const abort = (): void => void request.destroy();
  const late = setTimeout(abort, UPGRADE_MS);
  signal?.addEventListener('abort', abort, { once: true });
  request.on('socket', (socket) => {
    socket.once(request.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
      connected = true;
    });
  });
  request.on('error', fail);
  request.on('close', () => {
    clearTimeout(late);
    signal?.removeEventListener('abort', abort);
    // A refusal is told once it is read, which may be after its connection has ended.
    if (!refused) fail(new Error('the connection was closed'));
  });
  request.on('response', (response) => {
    refused = true;
    void refusal(response).then(reject, fail);
  });
  request.on('upgrade', (response, socket, head) => {
    clearTimeout(late);
    signal?.removeEventListener('abort', abort);
    if (!accepted(response, key, protocol)) {
      socket.destroy();
      fail(new Error('the server accepted another WebSocket than the one that was asked for'));
      return;
    }
    resolve(new NodeChannel(socket, head));
  });
  request.end();
  return promise;
}

function accepted(response: IncomingMessage, key: string, protocol: string): boolean {
  const expected = createHash('sha1')
    .update(key + ACCEPT_SALT)
    .digest('base64');
  const { headers } = response;
  return (
    headers['sec-websocket-accept'] === expected &&
    headers['sec-websocket-protocol'] === protocol &&
    headers['sec-websocket-extensions'] === undefined
  );
}

async function refusal(response: IncomingMessage): Promise<UpgradeRefusedError> {
  const parts = new BodyCollector(MAX_REFUSAL_BYTES);
  for await (const part of response) parts.push(part as Uint8Array);
  return new UpgradeRefusedError({ status: response.statusCode ?? 0, body: parts.finish() });
}

/** An open WebSocket. */
class NodeChannel implements MessageChannel {
  readonly #socket: Duplex;
  readonly #reader = new FrameReader();
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #wake: (() => void) | null = null;
  /** Set once: how the connection ended. */
  #end: { readonly error: TransportError | null } | null = null;
  #closing = false;

  constructor(socket: Duplex, head: Uint8Array) {
    this.#socket = socket;
    socket.on('data', (data: Uint8Array) => this.#take(data));
    socket.on('error', (error) => this.#finish(new TransportError('cut', error)));
    socket.on('close', () => this.#finish(new TransportError('cut', new Error('the connection was closed'))));
    if (head.length > 0) this.#take(head);
  }

  get messages(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  send(message: Uint8Array): Promise<void> {
    return this.#write(frame(OPCODE.binary, message, randomBytes(4)));
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    const reason = Uint8Array.of(CLOSE_NORMAL >> 8, CLOSE_NORMAL & 0xff);
    this.#write(frame(OPCODE.close, reason, randomBytes(4))).catch(() => undefined);
    this.#socket.end();
    this.#socket.resume();
    // A server that does not answer the close is not waited for.
    setTimeout(() => this.#socket.destroy(), CLOSE_MS).unref();
  }

  #write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#end !== null || !this.#socket.writable) {
        reject(new TransportError('cut', new Error('the connection has ended')));
        return;
      }
      this.#socket.write(bytes, (error) => {
        if (error == null) resolve();
        else reject(new TransportError('cut', error));
      });
    });
  }

  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const ready = this.#waiting;
        this.#waiting = [];
        this.#waitingBytes = 0;
        yield* ready;
        if (this.#waiting.length > 0) continue;
        if (this.#end !== null) {
          if (this.#end.error !== null) throw this.#end.error;
          return;
        }
        this.#socket.resume();
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.close();
    }
  }

  #take(data: Uint8Array): void {
    try {
      for (const { opcode, payload } of this.#reader.push(data)) {
        if (opcode === OPCODE.binary) this.#give(payload);
        else if (opcode === OPCODE.ping)
          this.#write(frame(OPCODE.pong, payload, randomBytes(4))).catch(() => undefined);
        else if (opcode === OPCODE.close) this.#closed(payload);
      }
    } catch (error) {
      this.#finish(new TransportError('cut', error));
      this.#socket.destroy();
    }
  }

  #give(message: Uint8Array): void {
    this.#waiting.push(message);
    this.#waitingBytes += message.length;
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.#socket.pause();
    this.#awake();
  }

  /** Only a normal close is an orderly end; a server that goes away is a cut that its client may mend. */
  #closed(payload: Uint8Array): void {
    const status = payload.length >= 2 ? ((payload[0] ?? 0) << 8) | (payload[1] ?? 0) : CLOSE_NORMAL;
    const orderly = status === CLOSE_NORMAL;
    this.#finish(orderly ? null : new TransportError('cut', new Error(`the server closed the connection (${status})`)));
    this.close();
  }

  #finish(error: TransportError | null): void {
    this.#end ??= { error };
    this.#awake();
  }

  #awake(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
