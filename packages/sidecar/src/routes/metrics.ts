/** `GET /metrics`: what a sandbox was asked for, in the text format of Prometheus. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Session } from '../session/session.ts';
import type { SidecarRoutes } from './context.ts';
import type { Authenticated } from './token.ts';

interface Count {
  requests: number;
  errors: number;
}

const FORMAT = 'text/plain; version=0.0.4; charset=utf-8';
const PREFIX = 'boxxkite_sidecar_';
/** Label of all requests that no route takes. */
const UNMATCHED = 'unmatched';

/**
 * Requests of each session by their routes. A label is the template of a route of the app, never a path; who has shown no
 * token is not counted.
 */
export class RequestMetrics {
  readonly #counts = new WeakMap<Session, Map<string, Count>>();

  /** Counts what `authenticated` lets in; call it after `protect`. */
  observe(app: FastifyInstance, authenticated: Authenticated): void {
    app.addHook('onRequest', (request, _reply, done) => {
      const count = this.#countOf(request, authenticated);
      if (count !== null) count.requests += 1;
      done();
    });
    app.addHook('onResponse', (request, reply, done) => {
      const count = this.#countOf(request, authenticated);
      if (count !== null && reply.statusCode >= 400) count.errors += 1;
      done();
    });
  }

  /** In the order of the routes' first requests. */
  of(session: Session): Iterable<readonly [route: string, count: Readonly<Count>]> {
    return this.#counts.get(session) ?? [];
  }

  #countOf(request: FastifyRequest, authenticated: Authenticated): Count | null {
    const session = authenticated.admitted(request);
    if (session === null) return null;
    const counts = this.#counts.get(session) ?? new Map<string, Count>();
    this.#counts.set(session, counts);
    const route = request.is404 ? UNMATCHED : (request.routeOptions.url ?? UNMATCHED);
    const count = counts.get(route) ?? { requests: 0, errors: 0 };
    counts.set(route, count);
    return count;
  }
}

/** Metrics. */
export const metricsRoutes: SidecarRoutes = (app, { authenticated, metrics }) => {
  app.get('/metrics', { schema: { summary: 'Counters in the text format of Prometheus' } }, (request, reply) => {
    const session = authenticated.session(request);
    const routes = [...metrics.of(session)];
    const { ended, failed } = session.execCounts;
    const text = [
      family('uptime_seconds', 'gauge', 'Seconds since this process began.', [['', process.uptime()]]),
      family('requests_total', 'counter', 'Requests by route.', byRoute(routes, 'requests')),
      family('request_errors_total', 'counter', 'Answers of 400 and above by route.', byRoute(routes, 'errors')),
      family('exec_total', 'counter', 'Commands that have ended.', [['', ended]]),
      family('exec_errors_total', 'counter', 'Commands that ended otherwise than by exit status 0.', [['', failed]]),
    ].join('');
    return reply.header('content-type', FORMAT).send(text);
  });
};

type Sample = readonly [labels: string, value: number];

/** Templates of routes hold nothing that a label would have to escape. */
function byRoute(routes: readonly (readonly [string, Count])[], field: keyof Count): readonly Sample[] {
  return routes.filter(([, count]) => count[field] > 0).map(([route, count]) => [`{route="${route}"}`, count[field]]);
}

function family(name: string, type: 'gauge' | 'counter', help: string, samples: readonly Sample[]): string {
  const full = PREFIX + name;
  const lines = samples.map(([labels, value]) => `${full}${labels} ${value}\n`);
  return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${lines.join('')}`;
}
