/** `/flush`, `/flush/confirmed` and `/prefetch-uploads`: files of the session in the object store. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { FlushReport, RestoreReport } from '../storage/session-storage.ts';
import type { SidecarRoutes } from './context.ts';
import { prefetchBody } from './storage-schemas.ts';
import type { Authenticated } from './token.ts';

/** Storing now, and bringing uploads. */
export const storageRoutes: SidecarRoutes = (app, { authenticated }) => {
  app.post('/flush', { schema: { summary: 'Store all files now' } }, async (request) => {
    const session = authenticated.session(request);
    const report = await session.services.storage.flush();
    return { ...answerOf(report), files: report.pending.map(({ path }) => path) };
  });

  app.post(
    '/flush/confirmed',
    { schema: { summary: 'Store all files now, and list what the store has of them' } },
    async (request) => {
      const session = authenticated.session(request);
      const { storage_keys, manifest_key, ...report } = await session.services.storage.confirmed();
      return { ...answerOf(report), storage_keys, manifest_key };
    },
  );

  app.post(
    '/prefetch-uploads',
    { schema: { summary: 'Bring uploads from the object store', body: prefetchBody } },
    async (request: FastifyRequest<{ Body: z.output<typeof prefetchBody> }>) => {
      const { organization_id, upload_file_ids } = request.body;
      const session = authenticated.session(request);
      const { storage } = session.services;
      const brought = await storage.prefetch(organization_id ?? null, upload_file_ids ?? []);
      return {
        status: 'prefetched',
        session_id: session.configured?.session_id ?? null,
        ...restoreAnswer(brought),
      };
    },
  );
};

/** Has files stored within the short interval that routes of an app have written; one that only reads costs a look. */
export function storeWrites(app: FastifyInstance, authenticated: Authenticated): void {
  app.addHook('onResponse', (request, reply, done) => {
    if (request.method !== 'GET' && reply.statusCode < 400) authenticated.admitted(request)?.services.storage.written();
    done();
  });
}

/** What was brought from the store, as `/configure` and `/prefetch-uploads` say it. */
export function restoreAnswer({ files, missing, unknownUploads }: RestoreReport): object {
  return { prefetched_files: files, missing_files: missing, missing_uploads: unknownUploads };
}

function answerOf({ complete, failure, pending, skipped, ignored, storage_prefix }: FlushReport): object {
  return {
    status: complete ? 'flushed' : 'incomplete',
    storage_prefix,
    pending,
    failure,
    skipped,
    ignored,
  };
}
