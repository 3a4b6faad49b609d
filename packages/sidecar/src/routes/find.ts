/** Lists, globs, searches and watches as the reference has them. */
import { clientSignal, sendList } from '@boxkite/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type Entry, entriesOf, globbed, globPage, type Page, pageOf } from '../files/entries.ts';
import { grep } from '../files/grep.ts';
import { directoryPath, rootedPath } from '../files/rooted-path.ts';
import { watchOnce } from '../files/watch.ts';
import type { SidecarContext, SidecarRoutes } from './context.ts';
import { globBody, grepBody, lsBody, watchBody } from './find-schemas.ts';

type Ls = FastifyRequest<{ Body: z.output<typeof lsBody> }>;
type Glob = FastifyRequest<{ Body: z.output<typeof globBody> }>;
type Grep = FastifyRequest<{ Body: z.output<typeof grepBody> }>;
type Watch = FastifyRequest<{ Body: z.output<typeof watchBody> }>;

/** Of a page that begins behind another one. */
const DEFAULT_PAGE = 10_000;
const DEFAULT_MATCHES = 500;
const MOST_MATCHES = 5000;
const DEFAULT_WATCH_SECONDS = 10;
const LEAST_WATCH_SECONDS = 0.1;
const MOST_WATCH_SECONDS = 60;

/** Looking for files and in them. */
export const findRoutes: SidecarRoutes = (app, context) => {
  app.post('/ls', { schema: { summary: 'List a directory', body: lsBody } }, (request: Ls, reply: FastifyReply) => {
    const { present } = context.authenticated.session(request).services.files;
    const path = directoryPath(request.body.path ?? '/');
    const signal = clientSignal(reply.raw, context.closing);
    return answerList(request, reply, 'entries', {
      all: () => entriesOf(present, path, signal),
      page: (limit, cursor) => pageOf(present, { path, limit, cursor }, signal),
    });
  });

  app.post(
    '/glob',
    { schema: { summary: 'Find files by their names', body: globBody } },
    (request: Glob, reply: FastifyReply) => {
      const { present } = context.authenticated.session(request).services.files;
      const path = rootedPath(request.body.path ?? '/');
      const { pattern } = request.body;
      const signal = clientSignal(reply.raw, context.closing);
      return answerList(request, reply, 'matches', {
        all: () => globbed(present, path, pattern, signal),
        page: (limit, cursor) => globPage(present, { path, pattern, limit, cursor }, signal),
      });
    },
  );

  app.post('/grep', { schema: { summary: 'Find lines', body: grepBody } }, (request: Grep, reply: FastifyReply) =>
    grepRoute(context, request, reply),
  );

  app.post(
    '/watch',
    { schema: { summary: 'Wait for a change of a directory', body: watchBody } },
    async (request: Watch, reply: FastifyReply) => {
      const { present } = context.authenticated.session(request).services.files;
      const path = directoryPath(request.body.path ?? '/');
      const asked = request.body.timeout_seconds ?? DEFAULT_WATCH_SECONDS;
      const seconds = Math.min(MOST_WATCH_SECONDS, Math.max(LEAST_WATCH_SECONDS, asked));
      const changes = await watchOnce(present, path, seconds, clientSignal(reply.raw, context.closing));
      return { changes, timed_out: changes.length === 0 };
    },
  );
};

async function grepRoute(context: SidecarContext, request: Grep, reply: FastifyReply): Promise<object> {
  const { present, redaction, settings } = context.authenticated.session(request).services.files;
  const { pattern, glob } = request.body;
  const path = rootedPath(request.body.path ?? '/');
  const maxMatches = Math.min(MOST_MATCHES, Math.max(1, request.body.max_matches ?? DEFAULT_MATCHES));
  const asked = { pattern, path, glob: glob ?? null, maxMatches };
  return grep(present, redaction, settings.grep, asked, clientSignal(reply.raw, context.closing));
}

/** Complete unless a page is asked for. */
async function answerList(
  request: Ls | Glob,
  reply: FastifyReply,
  name: string,
  read: {
    readonly all: () => AsyncIterable<Entry>;
    readonly page: (limit: number, cursor: string | null) => Promise<Page>;
  },
): Promise<object> {
  const { limit, cursor } = request.body;
  if (limit == null && cursor == null) return sendList({ request, reply, name, head: {} }, read.all());
  const { entries, next } = await read.page(limit ?? DEFAULT_PAGE, cursor ?? null);
  return sendList({ request, reply, name, head: { next_cursor: next } }, each(entries));
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}
