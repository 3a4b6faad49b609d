import type { ServerResponse } from 'node:http';
import {
  addBasics,
  attachRoutes,
  errorSender,
  execControlRoutes,
  execInputRoutes,
  execRoutes,
  fileRoutes,
  noFrames,
  outputRoutes,
  runRoutes,
  type SandboxContext,
  type SandboxRoutes,
  sizes,
  textFileRoutes,
  transferRoutes,
} from '@boxkite/kit';
import type { SandboxManager } from '@boxkite/manager';
import { hideCredentials } from '@boxkite/policy';
import { v1 } from '@boxkite/protocol';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify';
import { fastify, LogController } from 'fastify';
import type { IdempotencyStore } from './database/idempotency-store.ts';
import type { KeyStore } from './database/key-store.ts';
import { requireKey } from './http/authentication.ts';
import { decorateIdempotency, idempotent } from './http/idempotency.ts';
import { administrationRoutes } from './routes/administration.ts';
import { type Context, portOf, type Routes, type StatusFacts, sandboxParams } from './routes/context.ts';
import { processOutputRoutes, processRoutes } from './routes/processes.ts';
import { sandboxRoutes } from './routes/sandboxes.ts';
import type { MachineLimits } from './services/sandbox-spec.ts';

/** What a server is made of. */
export interface ServerParts {
  readonly manager: SandboxManager;
  readonly keys: KeyStore;
  readonly idempotency: IdempotencyStore;
  readonly machine: MachineLimits;
  readonly facts: StatusFacts;
  /** Aborted when the server begins to close: no new call is taken, and long answers end. */
  readonly closing: AbortSignal;
  readonly logger: FastifyBaseLogger;
  /** Called before the routes are added, for what describes them. */
  readonly prepare?: ((app: FastifyInstance) => void) | undefined;
}

const CHALLENGE = 'Bearer';
const ROUTES: readonly Routes[] = [sandboxRoutes, processRoutes, processOutputRoutes, administrationRoutes];
const SANDBOX_ROUTES: readonly SandboxRoutes[] = [
  runRoutes,
  execRoutes,
  execControlRoutes,
  execInputRoutes,
  outputRoutes,
  attachRoutes,
  fileRoutes,
  textFileRoutes,
  transferRoutes,
];

/** The app of `/v1`, which `listen` puts behind sockets. */
export function createServer(parts: ServerParts): FastifyInstance {
  const app: FastifyInstance = fastify({
    loggerInstance: parts.logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: sizes.json,
    routerOptions: { maxParamLength: sizes.parameter, ignoreTrailingSlash: true },
    requestIdHeader: false,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    frameworkErrors: (error, request, reply) => {
      forbidFrames(reply.raw);
      errorSender({ challenge: CHALLENGE, hide: hideCredentials })(error, request, reply);
    },
  });
  app.addHook('onRequest', (_request, reply, done) => {
    forbidFrames(reply.raw);
    done();
  });
  addBasics(app, {
    hide: hideCredentials,
    closing: parts.closing,
    challenge: CHALLENGE,
    // Bodies are read of those alone who have shown a key.
    accountOf: (request) => request.principal.account,
    onBody: (request, text) => {
      if (request.headers['idempotency-key'] !== undefined) request.rawBody = text;
    },
  });
  decorateIdempotency(app);
  parts.prepare?.(app);
  app.register(async (scope) => {
    scope.get('/health', { schema: { summary: 'Whether it serves', response: { 200: v1.health } } }, async () => ({
      status: 'ok',
    }));
    scope.register(async (api) => addApi(api, parts), { prefix: '/v1' });
  });
  return app;
}

/** On the response itself, which answers of every kind share. */
function forbidFrames(response: ServerResponse): void {
  for (const [name, value] of noFrames) response.setHeader(name, value);
}

function addApi(api: FastifyInstance, parts: ServerParts): void {
  requireKey(api, parts.keys);
  const context: Context = parts;
  for (const routes of ROUTES) api.register(async (scope) => routes(scope, context));
  const one: SandboxContext = {
    portOf: (request) => portOf(context, request as FastifyRequest<{ Params: { id: string } }>),
    params: sandboxParams,
    creates: idempotent(parts.idempotency),
    closing: parts.closing,
  };
  for (const routes of SANDBOX_ROUTES) {
    api.register(async (scope) => routes(scope, one), { prefix: '/sandboxes/:id' });
  }
}
