/** The HTTP API of sandboxes: one app for as many as its registry has, each reached by its own token. */
import {
  addBasics,
  attachRoutes,
  errorSender,
  execControlRoutes,
  execInputRoutes,
  execRoutes,
  fileRoutes,
  outputRoutes,
  type RequestPart,
  type SandboxContext,
  type SandboxRoutes,
  sizes,
  textFileRoutes,
  transferRoutes,
} from '@boxkite/kit';
import { hideCredentials } from '@boxkite/policy';
import type { ErrorBody, ErrorDetails } from '@boxkite/protocol';
import { type FastifyBaseLogger, type FastifyInstance, type FastifyRequest, fastify, LogController } from 'fastify';
import { z } from 'zod';
import { ImageHelper } from './images/image-helper.ts';
import type { SidecarRoutes } from './routes/context.ts';
import { referenceExecRoutes } from './routes/exec.ts';
import { presentRoutes, referenceFileRoutes } from './routes/files.ts';
import { findRoutes } from './routes/find.ts';
import { healthRoutes } from './routes/health.ts';
import { imageRoutes } from './routes/images.ts';
import { interpreterRoutes } from './routes/interpreter.ts';
import { metricsRoutes, RequestMetrics } from './routes/metrics.ts';
import { keepWaiting } from './routes/patience.ts';
import { processRoutes, processStreamRoutes } from './routes/process.ts';
import { scratchRoutes } from './routes/scratch.ts';
import { sessionRoutes } from './routes/session.ts';
import { skillRoutes } from './routes/skills.ts';
import { storageRoutes, storeWrites } from './routes/storage.ts';
import { Authenticated } from './routes/token.ts';
import { toolCallRoutes } from './routes/tool-call.ts';
import type { Session } from './session/session.ts';
import type { SessionRegistry } from './session/session-registry.ts';

/** What a sidecar is made with. */
export interface SidecarOptions {
  /** Absent: silent. */
  readonly logger?: FastifyBaseLogger | undefined;
  /** Aborted when the process begins to stop: no new call is taken, and long answers end. */
  readonly closing: AbortSignal;
  /** The one session that there is, of which `GET /health` tells even without a token whether it is in use. */
  readonly only?: Session | undefined;
  /** Path of `boxkite-runner`, which confines the processes that decode images. Absent: images are not decoded. */
  readonly runner?: string | undefined;
  /** Called before routes are added, by whoever wants to know of them. */
  readonly prepare?: ((app: FastifyInstance) => void) | undefined;
}

const OWN: readonly SidecarRoutes[] = [
  healthRoutes,
  metricsRoutes,
  sessionRoutes,
  referenceExecRoutes,
  processRoutes,
  processStreamRoutes,
  interpreterRoutes,
  referenceFileRoutes,
  presentRoutes,
  findRoutes,
  imageRoutes,
  storageRoutes,
  skillRoutes,
  scratchRoutes,
  toolCallRoutes,
];
const SHARED: readonly SandboxRoutes[] = [execRoutes, execControlRoutes, execInputRoutes, outputRoutes, attachRoutes];
const SHARED_FILES: readonly SandboxRoutes[] = [fileRoutes, textFileRoutes, transferRoutes];

/** The app; whoever makes it puts it behind sockets. Nothing but `GET /health` is answered without a token. */
export function createSidecar(registry: SessionRegistry, options: SidecarOptions): FastifyInstance {
  const authenticated = new Authenticated(registry);
  const hide = (text: string, request: FastifyRequest): string =>
    authenticated.admitted(request)?.redaction.output(text) ?? hideCredentials(text);
  const sendError = errorSender({ decorate, hide });
  const app: FastifyInstance = fastify({
    ...(options.logger === undefined ? { logger: false } : { loggerInstance: options.logger }),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: sizes.json,
    routerOptions: { maxParamLength: sizes.parameter, ignoreTrailingSlash: true },
    requestIdHeader: false,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    frameworkErrors: (error, request, reply) => {
      try {
        authenticated.admit(request);
      } catch (refusal) {
        return sendError(refusal, request, reply);
      }
      sendError(error, request, reply);
    },
  });
  // Before everything that reads more of a request.
  authenticated.protect(app);
  const metrics = new RequestMetrics();
  metrics.observe(app, authenticated);
  addBasics(app, { closing: options.closing, decorate, hide });
  keepWaiting(app);
  options.prepare?.(app);
  const context: SandboxContext = {
    portOf: async (request) => {
      const { files, granted } = authenticated.session(request);
      return { files, execs: granted };
    },
    params: z.object({}),
    creates: {},
    closing: options.closing,
  };
  const images = new ImageHelper(options.runner ?? null);
  app.addHook('onClose', async () => images.close());
  const own = { authenticated, only: options.only ?? null, metrics, images, closing: options.closing };
  for (const routes of OWN) app.register(async (scope) => routes(scope, own));
  for (const routes of SHARED) app.register(async (scope) => routes(scope, context));
  for (const routes of SHARED_FILES) {
    app.register(async (scope) => {
      storeWrites(scope, authenticated);
      routes(scope, context);
    });
  }
  return app;
}

/** What a problem is one of where it is none of a field. */
const WHOLE = 'request';

/** `Array.isArray` would forget of what. */
function isList(value: ErrorDetails[string] | undefined): value is readonly string[] {
  return Array.isArray(value);
}

/** The reference's clients read `detail`: a sentence, the problems of a request, or what of a budget is spent. */
function decorate({ error }: ErrorBody, part: RequestPart): object {
  return { error, detail: detailOf(error, part) };
}

function detailOf({ code, message, details }: ErrorBody['error'], part: RequestPart): unknown {
  const { problems, reason, limit, used } = details;
  if (code === 'session_budget_exceeded') return { error_type: code, reason, limit, used, message };
  if (code !== 'invalid_request' || !isList(problems)) return message;
  return problems.map((msg) => {
    const [, field = WHOLE] = /^(\S+?)(?:: | is missing$)/.exec(msg) ?? [];
    const type = msg === `${field} is missing` ? 'missing' : 'value_error';
    return { type, loc: [part, ...(field === WHOLE ? [] : field.split('.'))], msg };
  });
}
