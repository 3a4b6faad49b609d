/** Files and trees as bytes, both ways, as fast as the slower side. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FileInfo } from '@boxkite/protocol';
import { BoxkiteError, v1 } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { times } from '../http/deadlines.ts';
import { preconditionOf } from '../http/preconditions.ts';
import { fileConditions } from '../http/request-headers.ts';
import { clientSignal, write } from '../http/streams.ts';
import type { SandboxContext, SandboxRoutes } from './context.ts';
import { byteRange, fileInfoHeader } from './file-json.ts';

type PathQuery = { Querystring: z.output<typeof v1.pathQuery> };
type WriteQuery = { Querystring: z.output<typeof v1.writeQuery> };

const OCTETS = 'application/octet-stream';
const TAR = 'application/x-tar';

/** This scope parses no body: what comes is handed on as it comes. */
export const transferRoutes: SandboxRoutes = (app, context) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(/^/, (_request, payload, callback) => callback(null, payload));
  const content = '/files/content';
  const archive = '/files/archive';
  const read = { params: context.params, querystring: v1.pathQuery };

  app.get<PathQuery>(
    content,
    {
      exposeHeadRoute: false,
      config: { headers: ['range'] },
      schema: { summary: 'Read a file, or a range of it', produces: [OCTETS], ...read },
    },
    (request, reply) => download(context, request, reply),
  );
  app.head<PathQuery>(content, { schema: { summary: 'Look at a file', ...read } }, (request, reply) =>
    download(context, request, reply),
  );
  app.put<WriteQuery>(
    content,
    {
      config: { headers: fileConditions },
      schema: {
        summary: 'Write a file',
        consumes: [OCTETS],
        params: context.params,
        querystring: v1.writeQuery,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      const { path, mode, parents } = request.query;
      const signal = clientSignal(reply.raw, context.closing);
      const expected = preconditionOf(request.headers) ?? undefined;
      await files.write(path, upload(request), { mode, parents, expected }, signal);
      return reply.code(204).send();
    },
  );

  app.get<PathQuery>(
    archive,
    { exposeHeadRoute: false, schema: { summary: 'Read a tree as tar', produces: [TAR], ...read } },
    (request, reply) => pack(context, request, reply),
  );
  app.put<PathQuery>(
    archive,
    { schema: { summary: 'Unpack tar into a directory', consumes: [TAR], ...read, response: { 204: z.null() } } },
    async (request, reply) => {
      const { files } = await context.portOf(request);
      await files.unpack(request.query.path, upload(request), clientSignal(reply.raw, context.closing));
      return reply.code(204).send();
    },
  );
};

/** The body of a request, which may be as long as it moves. */
async function* upload(request: FastifyRequest): AsyncGenerator<Uint8Array, void, undefined> {
  const { raw } = request;
  const stalled = (): void => void raw.destroy(new BoxkiteError('request_timeout', 'the upload has stalled'));
  raw.setTimeout(times.uploadIdleMs, stalled);
  try {
    // One that is refused half-way stays open, for the answer to be read.
    const chunks: AsyncIterable<Buffer> = raw.iterator({ destroyOnReturn: false });
    for await (const chunk of chunks) yield chunk;
    if (!isWhole(raw)) throw new BoxkiteError('aborted', 'the upload was cut off');
  } catch (error) {
    if (error instanceof BoxkiteError) throw error;
    throw new BoxkiteError('aborted', 'the upload was cut off', { cause: error });
  } finally {
    raw.setTimeout(0);
    // What is left is passed over, so that the connection can take the next request: while it was read here, nobody else could.
    raw.resume();
  }
}

function isWhole(raw: IncomingMessage): boolean {
  return raw.complete;
}

async function download(
  context: SandboxContext,
  request: FastifyRequest<PathQuery>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { files } = await context.portOf(request);
  const signal = clientSignal(reply.raw, context.closing);
  // Of what a link leads to: its own length is that of a path.
  const info = await files.stat(request.query.path, signal, { follow: true });
  const headOnly = request.method === 'HEAD';
  if (info.type === 'directory') throw new BoxkiteError('is_directory', 'the path is that of a directory');
  if (info.type !== 'file') throw new BoxkiteError('not_a_file', 'the path is that of a pipe, a socket or a device');
  const range = rangeOf(request, reply, info);
  const { offset, length } = range ?? { offset: 0, length: info.size };
  const data = headOnly ? null : files.read(info.path, { offset, length }, signal)[Symbol.asyncIterator]();
  // A file that can't be read is refused before anything of an answer is sent.
  const first = data === null || length === 0 ? null : await data.next();
  reply.hijack();
  reply.raw.writeHead(range === null ? 200 : 206, {
    'content-type': OCTETS,
    'content-length': length,
    'accept-ranges': 'bytes',
    'last-modified': new Date(Math.max(0, info.modified_ms)).toUTCString(),
    [v1.fileInfoHeader]: fileInfoHeader(info),
    ...(range === null ? {} : { 'content-range': `bytes ${offset}-${offset + length - 1}/${info.size}` }),
  });
  await sendAll(reply.raw, data, first, length, request);
  return reply;
}

/** The part that is asked for, `null`: all. */
function rangeOf(request: FastifyRequest, reply: FastifyReply, info: FileInfo) {
  // Nothing that answers say of a file tells for sure that it still is the one of which a client has the first part.
  if (request.method === 'HEAD' || request.headers['if-range'] !== undefined) return null;
  try {
    return byteRange(request.headers.range, info.size);
  } catch (error) {
    reply.header('content-range', `bytes */${info.size}`);
    throw error;
  }
}

async function pack(
  context: SandboxContext,
  request: FastifyRequest<PathQuery>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { files } = await context.portOf(request);
  const signal = clientSignal(reply.raw, context.closing);
  const data = files
    .pack(request.query.path, signal, ({ omitted, cut }) => {
      reply.raw.addTrailers({ [v1.packEndTrailer]: JSON.stringify({ omitted, cut }) });
    })
    [Symbol.asyncIterator]();
  const first = await data.next();
  reply.hijack();
  reply.raw.writeHead(200, { 'content-type': TAR, trailer: v1.packEndTrailer });
  await sendAll(reply.raw, data, first, null, request);
  return reply;
}

/** Sends what an iterator gives; where that breaks off, or is not as long as was said, the connection does too. */
async function sendAll(
  response: ServerResponse,
  data: AsyncIterator<Uint8Array> | null,
  first: IteratorResult<Uint8Array> | null,
  length: number | null,
  request: FastifyRequest,
): Promise<void> {
  let sent = 0;
  try {
    for (let next = first; data !== null && next !== null && next.done !== true; next = await data.next()) {
      if (!(await write(response, [next.value]))) return;
      sent += next.value.length;
    }
    if (length === null || sent === length || data === null) response.end();
    else response.destroy();
  } catch (error) {
    request.log.warn(error, 'a download broke off');
    response.destroy();
  } finally {
    await data?.return?.().catch((error: unknown) => request.log.warn(error, 'a download was left'));
  }
}
