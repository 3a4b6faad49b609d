/** `/scratch/*`: small notes of an agent. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { MOST_KEYS, MOST_TOTAL_BYTES } from '../session/scratch.ts';
import type { SidecarRoutes } from './context.ts';
import { scratchKey, scratchSetBody } from './scratch-schemas.ts';

type Key = z.output<typeof scratchKey>;

/** Scratch memory. */
export const scratchRoutes: SidecarRoutes = (app, { authenticated }) => {
  app.post(
    '/scratch/set',
    { schema: { summary: 'Keep a note', body: scratchSetBody } },
    async (request: FastifyRequest<{ Body: z.output<typeof scratchSetBody> }>) => {
      const { key, value } = request.body;
      const keys = await authenticated.session(request).services.scratch.set(key, value);
      return { key, bytes_stored: Buffer.byteLength(value), keys };
    },
  );

  app.get(
    '/scratch/get',
    { schema: { summary: 'Read a note', querystring: scratchKey } },
    (request: FastifyRequest<{ Querystring: Key }>) => {
      const { key } = request.query;
      const value = authenticated.session(request).services.scratch.get(key);
      return { key, value, found: value !== null };
    },
  );

  app.get('/scratch/list', { schema: { summary: 'Names and sizes of all notes' } }, (request) => {
    const { entries, totalBytes } = authenticated.session(request).services.scratch.list();
    return {
      entries,
      keys: entries.length,
      total_bytes: totalBytes,
      max_keys: MOST_KEYS,
      max_total_bytes: MOST_TOTAL_BYTES,
    };
  });

  app.post(
    '/scratch/delete',
    { schema: { summary: 'Forget a note', body: scratchKey } },
    async (request: FastifyRequest<{ Body: Key }>) => {
      const { key } = request.body;
      return { key, ...(await authenticated.session(request).services.scratch.delete(key)) };
    },
  );
};
