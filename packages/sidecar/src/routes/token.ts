/** Which session a request is for: its token says it, before anything else of it is read. */
import type { IncomingMessage } from 'node:http';
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Session } from '../session/session.ts';
import type { SessionRegistry } from '../session/session-registry.ts';

/** Name of the header that carries the token. */
const tokenHeader = 'x-sidecar-auth-token';

interface Admitted {
  readonly session: Session;
  /** In which use of the sandbox the request arrived. */
  readonly use: number;
}

/** Sessions of requests that have shown their token. */
export class Authenticated {
  readonly #registry: SessionRegistry;
  readonly #admitted = new WeakMap<IncomingMessage, Admitted>();

  constructor(registry: SessionRegistry) {
    this.#registry = registry;
  }

  /**
   * The session that a request has been let in for, as long as its use has not ended since: ask again before what follows a
   * wait. Errors: `generation_gone`.
   */
  session(request: Pick<FastifyRequest, 'raw'>): Session {
    const session = this.anyUse(request);
    const isOf = session.use === this.#admitted.get(request.raw)?.use;
    if (isOf && !session.isBetweenUses) return session;
    throw new BoxkiteError('generation_gone', 'the sandbox was configured anew since the request arrived');
  }

  /** As `session`, for what is no part of a use. */
  anyUse(request: Pick<FastifyRequest, 'raw'>): Session {
    const session = this.admitted(request);
    if (session === null) throw new BoxkiteError('unauthorized', 'no token was sent');
    return session;
  }

  /** As `anyUse`; `null` for a request that has not been let in. */
  admitted(request: Pick<FastifyRequest, 'raw'>): Session | null {
    return this.#admitted.get(request.raw)?.session ?? null;
  }

  /** The session that a request's token opens, where it may go without one. */
  find(request: FastifyRequest): Session | null {
    const token = request.headers[tokenHeader];
    return typeof token === 'string' ? this.#registry.find(token.trim()) : null;
  }

  /** Errors: `not_configured` where no token opens anything, `unauthorized`. */
  admit(request: FastifyRequest): void {
    if (this.#registry.isEmpty) throw new BoxkiteError('not_configured', 'no token is configured');
    const session = this.find(request);
    if (session === null) throw new BoxkiteError('unauthorized', 'the token is missing or opens nothing');
    session.touch();
    this.#admitted.set(request.raw, { session, use: session.use });
  }

  /** Refuses everything but `GET /health` that shows no token, routes that do not exist included. */
  protect(app: FastifyInstance): void {
    app.addHook('onRequest', (request, _reply, done) => {
      try {
        if (!isHealth(request)) this.admit(request);
      } catch (error) {
        return done(error instanceof Error ? error : new Error(String(error)));
      }
      done();
    });
  }
}

function isHealth({ method, url }: FastifyRequest): boolean {
  return method === 'GET' && url.split('?', 1)[0] === '/health';
}
