/** Images as the reference's clients are given them. */
import { Readable } from 'node:stream';
import { clientSignal, holding } from '@boxkite/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { rootedPath } from '../files/rooted-path.ts';
import { readImage } from '../images/read-image.ts';
import type { SidecarRoutes } from './context.ts';
import { readImageBody } from './images-schemas.ts';

type Body = z.output<typeof readImageBody>;

/** Whole groups of three bytes, so that no piece of Base64 but the last is padded. */
const PIECE = 3 * 64 * 1024;

/** Reading images. */
export const imageRoutes: SidecarRoutes = (app, context) => {
  app.post(
    '/read-image',
    { schema: { summary: 'Show an image, made smaller where that is possible', body: readImageBody } },
    async (request: FastifyRequest<{ Body: Body }>, reply: FastifyReply) => {
      const { present, settings } = context.authenticated.session(request).services.files;
      const path = rootedPath(request.body.path);
      const signal = clientSignal(reply.raw, context.closing);
      const { mime, bytes } = await readImage(present, context.images, settings.images, path, signal);
      const head = { path: request.body.path, mime_type: mime, size_bytes: bytes.length, base64_data: '' };
      reply.header('content-type', 'application/json; charset=utf-8');
      return reply.send(holding(Readable.from(json(head, bytes)), bytes.length));
    },
  );
};

/** Piece by piece: a large image as one text would keep others waiting. */
function* json(head: object, bytes: Buffer): Generator<Buffer> {
  yield Buffer.from(JSON.stringify(head).slice(0, -2));
  for (let at = 0; at < bytes.length; at += PIECE)
    yield Buffer.from(bytes.toString('base64', at, at + PIECE), 'latin1');
  yield Buffer.from('"}');
}
