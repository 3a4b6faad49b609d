/** HTTP servers over listening sockets, all for one app. */
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { ListenOptions } from 'node:net';
import type { Duplex } from 'node:stream';
import { BoxkiteError, errorRegistry } from '@boxkite/protocol';
import type { FastifyInstance } from 'fastify';
import { sizes, times } from './deadlines.ts';
import { readingFailure } from './error-answers.ts';
import { noFrames } from './frame-headers.ts';

/** A socket that is, or is to be, listened on. */
export interface Listener {
  readonly on: Pick<ListenOptions, 'path' | 'host' | 'port'> & { readonly fd?: number };
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
}

/** How long headers may take, and how often that is looked at. */
export type Patience = { readonly [name in 'headersMs' | 'checkMs']: number };

/** Servers that listen. */
export interface Listening {
  readonly servers: readonly Server[];
  /** Takes no more connections, lets calls end for a while, then ends all that is left. */
  close(): Promise<void>;
}

/** Starts to listen; rejects, and listens nowhere, where one of the sockets can't be had. */
export async function listen(
  app: FastifyInstance,
  listeners: readonly Listener[],
  patience: Patience = times,
): Promise<Listening> {
  await app.ready();
  const servers: Server[] = [];
  try {
    for (const listener of listeners) servers.push(await open(app, listener, patience));
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  return { servers, close: async () => void (await Promise.all(servers.map(closeServer))) };
}

/** Sockets that have left HTTP, of which a server knows nothing any more but that they are open. */
const upgraded = new WeakMap<Server, Set<Duplex>>();

/** A handshake of RFC 6455 on the one kind of path that takes it; all else is answered as if nothing else was asked for. */
function isHandshake(request: IncomingMessage): boolean {
  const { headers, method, url = '' } = request;
  return (
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['sec-websocket-version'] === '13' &&
    /^[A-Za-z0-9+/]{22}==$/.test(headers['sec-websocket-key'] ?? '') &&
    // Of the path alone: what a query says changes no route.
    /^[^?#]*\/attach\/?(\?|$)/.test(url)
  );
}

function open(app: FastifyInstance, { on, tls }: Listener, patience: Patience): Promise<Server> {
  const options = {
    maxHeaderSize: sizes.headers,
    headersTimeout: patience.headersMs,
    // Bodies have deadlines of their own, since an upload may take as long as it moves.
    requestTimeout: 0,
    keepAliveTimeout: times.keepAliveMs,
    connectionsCheckingInterval: patience.checkMs,
    keepAlive: true,
    noDelay: true,
    shouldUpgradeCallback: isHandshake,
    // Node's own answer to one without a host has no body.
    requireHostHeader: false,
  };
  const answers = new WeakMap<Duplex, readonly ServerResponse[]>();
  const unended = (socket: Duplex) => (answers.get(socket) ?? []).filter(({ writableEnded }) => !writableEnded);
  const handler = (request: IncomingMessage, response: ServerResponse): void => {
    answers.set(request.socket, [...unended(request.socket), response]);
    if (isWithoutHost(request)) refuseWithoutHost(response);
    else app.routing(request, response);
  };
  const server =
    tls === undefined
      ? createServer(options, handler)
      : createTlsServer({ ...options, ...tls, minVersion: 'TLSv1.2' }, handler);
  const sockets = new Set<Duplex>();
  upgraded.set(server, sockets);
  // An expectation that nobody knows changes nothing of a request, nor of what it has to show first.
  server.on('checkExpectation', handler);
  server.on('upgrade', (request, socket, head) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    app.server.emit('upgrade', request, socket, head);
  });
  server.on('clientError', (error, socket) => {
    // What is written into an answer that has begun would be taken for a part of it.
    if (!socket.writable || unended(socket).some(({ headersSent }) => headersSent)) socket.destroy();
    else refuseUnreadable(error, socket);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(on, () => {
      server.off('error', reject);
      server.on('error', (error) => app.log.error(error, 'a listening socket failed'));
      resolve(server);
    });
  });
}

/** Answers what is no request in the shape of errors, and ends the connection. */
function refuseUnreadable(error: Error, socket: Duplex): void {
  const failure = readingFailure(error) ?? new BoxkiteError('bad_request', 'the request could not be read');
  socket.end(rawAnswer(failure), () => socket.destroy());
}

function isWithoutHost({ httpVersion, headers }: IncomingMessage): boolean {
  return httpVersion === '1.1' && headers.host === undefined;
}

function refuseWithoutHost(response: ServerResponse): void {
  const failure = new BoxkiteError('bad_request', 'the request has no Host');
  const body = JSON.stringify(failure);
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
    ...Object.fromEntries(noFrames),
  };
  response.writeHead(errorRegistry[failure.code].status, headers).end(body);
}

/** A whole HTTP answer as text, for sockets that no response belongs to. */
function rawAnswer(failure: BoxkiteError): string {
  const { status } = errorRegistry[failure.code];
  const body = JSON.stringify(failure);
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    ...noFrames.map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n');
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => {
    server.closeAllConnections();
    for (const socket of upgraded.get(server) ?? []) socket.destroy();
  }, times.closeMs);
  await closed;
  clearTimeout(timer);
}
