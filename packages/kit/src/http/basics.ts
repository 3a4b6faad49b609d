/** What every app of ours does alike: bodies, deadlines, the shape of errors, unknown routes, WebSockets. */
import { isAscii, isUtf8 } from 'node:buffer';
import { BoxkiteError, type ErrorBody, maxAttachMessageBytes, v1 } from '@boxkite/protocol';
import websocket from '@fastify/websocket';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { boundAnswers } from './answer-limits.ts';
import { refuseOtherForms } from './body-form.ts';
import { type AccountOf, boundMemory, endUnread, refuseManyContainers } from './body-limits.ts';
import { times } from './deadlines.ts';
import { errorAnswer } from './error-answers.ts';
import { hidden } from './hidden.ts';
import { refuseUnreadableQueries } from './query-text.ts';
import { refuseUnknownConditions } from './request-headers.ts';
import { zodValidator } from './validation.ts';

/** What differs between apps. */
export interface BasicsOptions {
  /** Aborted when the app begins to close: no new call is taken. */
  readonly closing: AbortSignal;
  /** What an answer with 401 asks for. */
  readonly challenge?: string | undefined;
  /** Adds to the one shape of errors; told in which part of a request a field was wrong. */
  readonly decorate?: ((body: ErrorBody, part: RequestPart) => object) | undefined;
  /** Takes what must not be shown out of the texts of a failure. Default: nothing. */
  readonly hide?: ((text: string, request: FastifyRequest) => string) | undefined;
  /** Whose large bodies and answers count together. Default: all are one client's. */
  readonly accountOf?: AccountOf | undefined;
  /** Told the text of each JSON body. */
  readonly onBody?: ((request: FastifyRequest, text: string) => void) | undefined;
}

/** Where the fields of a request are. */
export type RequestPart = 'body' | 'query' | 'path';

/** Answers a failure. */
export type SendError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** Prepares an app; call it before any route is added. */
export function addBasics(app: FastifyInstance, options: BasicsOptions): void {
  const { closing } = options;
  const send = errorSender(options);
  const sendError: SendError = (error, request, reply) =>
    send(closing.aborted && isAborted(error) ? stopping() : error, request, reply);
  app.setValidatorCompiler(zodValidator);
  // Answers are built field by field; the tests hold them to their schemas.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.setErrorHandler(sendError);
  parseJson(app, options);
  refuseWhileClosing(app, options.closing);
  boundBodies(app, sendError);
  endRefusedUpgrades(app);
  endUnread(app);
  refuseUnknownRoutes(app, sendError);
  refuseUnreadableQueries(app);
  refuseOtherForms(app);
  refuseUnknownConditions(app);
  const accountOf = options.accountOf ?? (() => '');
  boundMemory(app, accountOf);
  boundAnswers(app, accountOf);
  app.register(websocket, {
    options: {
      maxPayload: maxAttachMessageBytes + 1,
      handleProtocols: (offered: Set<string>) => (offered.has(v1.attachProtocol) ? v1.attachProtocol : false),
    },
    errorHandler: (error, socket, request) => {
      request.log.error(error, 'an attached connection failed');
      socket.terminate();
    },
  });
}

/** An empty body is an empty object; `__proto__` is a name like any other, which no schema knows. */
function parseJson(app: FastifyInstance, { onBody }: BasicsOptions): void {
  app.removeContentTypeParser(['application/json', 'text/plain']);
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    // What has no other characters is text as it stands, which most large bodies are.
    const ascii = isAscii(bytes);
    // Bytes that are no character would be replaced by one, and what was kept would not be what was sent.
    if (!ascii && !isUtf8(bytes)) return done(new BoxkiteError('bad_request', 'the body is not UTF-8'));
    const body = bytes.toString(ascii ? 'latin1' : 'utf8');
    onBody?.(request, body);
    if (body === '') return done(null, {});
    let parsed: unknown;
    try {
      refuseManyContainers(body);
      parsed = JSON.parse(body);
    } catch (error) {
      if (error instanceof BoxkiteError) return done(error);
      return done(new BoxkiteError('bad_request', 'the body is not valid JSON', { cause: error }));
    }
    done(null, parsed);
  });
  // A call without a body and without a content type is one with an empty object.
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body === undefined && request.method === 'POST') request.body = {};
    done();
  });
}

/** The socket of a refused upgrade belongs to no server that would ever time it out. */
function endRefusedUpgrades(app: FastifyInstance): void {
  app.addHook('onResponse', (request, reply, done) => {
    if (request.headers.upgrade !== undefined && reply.statusCode >= 400) request.raw.socket.destroySoon();
    done();
  });
}

function refuseWhileClosing(app: FastifyInstance, closing: AbortSignal): void {
  app.addHook('onRequest', (_request, reply, done) => {
    if (!closing.aborted) return done();
    reply.header('connection', 'close');
    done(stopping());
  });
}

function stopping(): BoxkiteError {
  return new BoxkiteError('state_unavailable', 'the daemon is stopping');
}

/** A call that the end of the app has cancelled was not cancelled by its caller. */
function isAborted(error: unknown): boolean {
  return error instanceof BoxkiteError && error.code === 'aborted';
}

/** A body that is parsed has to be there in time; one that is handed on has its own deadline. */
function boundBodies(app: FastifyInstance, sendError: SendError): void {
  const timers = new WeakMap<FastifyRequest, NodeJS.Timeout>();
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method !== 'PUT') {
      const timer = setTimeout(() => {
        const failure = new BoxkiteError('request_timeout', 'the body did not arrive in time');
        reply.header('connection', 'close');
        sendError(failure, request, reply);
        reply.raw.once('finish', () => request.raw.destroy());
      }, times.bodyMs);
      timer.unref();
      timers.set(request, timer);
    }
    done();
  });
  const stop = (request: FastifyRequest): void => clearTimeout(timers.get(request));
  app.addHook('preValidation', (request, _reply, done) => {
    stop(request);
    done();
  });
  app.addHook('onResponse', (request, _reply, done) => {
    stop(request);
    done();
  });
}

type ErrorOptions = Pick<BasicsOptions, 'challenge' | 'decorate' | 'hide'>;

/** How an app answers failures. */
export function errorSender({ challenge, decorate, hide }: ErrorOptions): SendError {
  return (error, request, reply) => {
    if (reply.sent || reply.raw.headersSent) return;
    const { status, body: whole } = errorAnswer(error, (unknown) => request.log.error(unknown));
    const body = hide === undefined ? whole : (hidden(whole, (text) => hide(text, request)) as ErrorBody);
    if (status === 401 && challenge !== undefined) reply.header('www-authenticate', challenge);
    finishError(reply, status, decorate?.(body, partOf(error)) ?? body);
  };
}

/** Of what a schema has refused, Fastify says which part it was. */
function partOf(error: unknown): RequestPart {
  const context = error instanceof Error && 'validationContext' in error ? error.validationContext : 'body';
  if (context === 'querystring') return 'query';
  return context === 'params' ? 'path' : 'body';
}

function finishError(reply: FastifyReply, status: number, body: object): void {
  if (status === 429) reply.header('retry-after', '1');
  // A body that was not read can't be told from the next request.
  if (status === 413 || status === 408) reply.header('connection', 'close');
  reply.code(status).header('content-type', 'application/json; charset=utf-8').send(JSON.stringify(body));
}

interface KnownPath {
  readonly pattern: RegExp;
  readonly methods: Set<string>;
}

/** Before anything of a body is read: whoever asks for what is not there has shown no key. */
function refuseUnknownRoutes(app: FastifyInstance, sendError: SendError): void {
  const methods = rememberMethods(app);
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404) notFound(methods, sendError, request, reply);
    else done();
  });
  app.setNotFoundHandler((request, reply) => notFound(methods, sendError, request, reply));
}

function rememberMethods(app: FastifyInstance): Map<string, KnownPath> {
  const known = new Map<string, KnownPath>();
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(/:[a-z]+/g, '[^/]+')}/?$`);
    const entry = known.get(url) ?? { pattern, methods: new Set<string>() };
    for (const name of Array.isArray(method) ? method : [method]) entry.methods.add(name);
    known.set(url, entry);
  });
  return known;
}

function notFound(
  known: Map<string, KnownPath>,
  sendError: SendError,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const path = request.url.split('?', 1)[0] ?? '';
  const methods = [...known.values()]
    .filter(({ pattern }) => pattern.test(path))
    .flatMap((entry) => [...entry.methods]);
  if (methods.length === 0) {
    const hint = 'Check the path; all routes are in the OpenAPI description.';
    return sendError(new BoxkiteError('not_found', 'there is no such route', { hint }), request, reply);
  }
  reply.header('allow', methods.join(', '));
  const message = `this route takes ${methods.join(', ')}`;
  sendError(new BoxkiteError('method_not_allowed', message, { details: { allow: methods } }), request, reply);
}
