import type { FilesPort } from '@boxkite/protocol';
import { BoxkiteError, v1 } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { preconditionOf } from '../http/preconditions.ts';
import { fileConditions } from '../http/request-headers.ts';
import { clientSignal } from '../http/streams.ts';
import type { SandboxContext, SandboxRoutes } from './context.ts';
import { listAll, listPage } from './listing.ts';

type PathQuery = { Querystring: z.output<typeof v1.pathQuery> };

const ROOT = '/workspace';
const done = { response: { 204: z.null() } } as const;

/** Calls on files whose bodies and answers are JSON. */
export const fileRoutes: SandboxRoutes = (app, context) => {
  const id = { params: context.params };

  app.delete<PathQuery>(
    '/files',
    { schema: { summary: 'Remove a file or a tree', ...id, querystring: v1.pathQuery, ...done } },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      await files.remove(request.query.path, clientSignal(reply.raw, context.closing));
      return reply.code(204).send();
    },
  );

  app.post<{ Body: z.output<typeof v1.moveBody> }>(
    '/files/move',
    { schema: { summary: 'Rename a file or a tree', ...id, body: v1.moveBody, ...done } },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      await files.move(request.body.from, request.body.to, clientSignal(reply.raw, context.closing));
      return reply.code(204).send();
    },
  );

  app.post<{ Body: z.output<typeof v1.mkdirBody> }>(
    '/files/mkdir',
    { schema: { summary: 'Make a directory and its parents', ...id, body: v1.mkdirBody, ...done } },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      await files.mkdir(request.body.path, clientSignal(reply.raw, context.closing));
      return reply.code(204).send();
    },
  );

  app.get<{ Querystring: z.output<typeof v1.statQuery> }>(
    '/files/stat',
    { schema: { summary: 'Look at a file', ...id, querystring: v1.statQuery, response: { 200: v1.fileInfo } } },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      const { path, follow } = request.query;
      return files.stat(path, clientSignal(reply.raw, context.closing), { follow });
    },
  );

  app.post<{ Body: z.output<typeof v1.listFilesBody> }>(
    '/files/ls',
    { schema: { summary: 'List a directory', ...id, body: v1.listFilesBody, response: { 200: v1.fileList } } },
    (request, reply) => list(context, request, reply),
  );
};

/** Text files, as the reference writes them. */
export const textFileRoutes: SandboxRoutes = (app, context) => {
  const id = { params: context.params };
  app.post<{ Body: z.output<typeof v1.createFileBody> }>(
    '/files',
    {
      config: { headers: fileConditions },
      schema: { summary: 'Write a text file', ...id, body: v1.createFileBody, response: { 200: v1.createdFile } },
    },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      const { path, content } = request.body;
      const signal = clientSignal(reply.raw, context.closing);
      const expected = preconditionOf(request.headers) ?? undefined;
      const created = !(await exists(files, path, signal));
      const bytes = Buffer.from(content, 'utf8');
      await files.write(path, bytes, { expected }, signal);
      return { path, size: bytes.length, created };
    },
  );
};

async function exists(files: FilesPort, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    await files.stat(path, signal);
    return true;
  } catch (error) {
    if (error instanceof BoxkiteError && error.code === 'file_not_found') return false;
    throw error;
  }
}

async function list(
  context: SandboxContext,
  request: FastifyRequest<{ Body: z.output<typeof v1.listFilesBody> }>,
  reply: FastifyReply,
) {
  const { files } = await context.portOf(request);
  const { path = ROOT, limit, cursor = null } = request.body;
  const found = files.list(path, clientSignal(reply.raw, context.closing));
  return limit === undefined && cursor === null ? listAll(found, request, reply) : listPage(found, { limit, cursor });
}
