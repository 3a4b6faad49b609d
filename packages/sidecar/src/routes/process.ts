/** Background processes as the reference has them. */
import { clientSignal } from '@boxkite/kit';
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { SidecarContext, SidecarRoutes } from './context.ts';
import {
  inputAnswer,
  inputBody,
  killedAnswer,
  listAnswer,
  outputAnswer,
  outputQuery,
  processParams,
  startBody,
  startedAnswer,
  stoppedAnswer,
} from './process-schemas.ts';
import { textBodyBytes } from './schema-parts.ts';

interface OfProcess {
  Params: z.output<typeof processParams>;
}

const one = { params: processParams };

/** Starting, listing and ending them. */
export const processRoutes: SidecarRoutes = (app, context) => {
  app.post<{ Body: z.output<typeof startBody> }>(
    '/process/start',
    {
      bodyLimit: textBodyBytes,
      schema: { summary: 'Start a background process', body: startBody, response: { 201: startedAnswer } },
    },
    async (request, reply) => {
      const { command, description, max_runtime_seconds, expose_port } = request.body;
      if (expose_port != null) {
        throw new BoxkiteError('unsupported', 'no port of a sandbox can be reached yet', {
          hint: 'Leave expose_port out.',
          details: { field: 'expose_port' },
        });
      }
      const session = context.authenticated.session(request);
      const most = session.settings.processes.maxRuntimeSeconds;
      if (max_runtime_seconds < 1 || max_runtime_seconds > most) {
        throw new BoxkiteError('bad_request', `max_runtime_seconds is to be from 1 to ${most}`, {
          hint: 'Give a number of seconds within these bounds.',
          details: { field: 'max_runtime_seconds' },
        });
      }
      const started = await session.services.processes.start({
        command,
        description: description ?? null,
        maxRuntimeSeconds: max_runtime_seconds,
      });
      const { process_id, status, started_at, exec_id } = started;
      return reply.code(201).send({ process_id, status, started_at, exec_id });
    },
  );

  app.get(
    '/process',
    { schema: { summary: 'List background processes', response: { 200: listAnswer } } },
    (request) => ({
      processes: processesOf(context, request).list(),
    }),
  );

  app.post<OfProcess>(
    '/process/:id/stop',
    { schema: { summary: 'Stop a background process', ...one, response: { 200: stoppedAnswer } } },
    async (request) => {
      const { status, exit_code } = await processesOf(context, request).stop(request.params.id);
      return { status, exit_code };
    },
  );

  app.post(
    '/process/kill-all',
    { schema: { summary: 'Kill and forget all background processes', response: { 200: killedAnswer } } },
    async (request) => ({ killed: await processesOf(context, request).killAll() }),
  );
};

/** What goes into one and what comes out of it. */
export const processStreamRoutes: SidecarRoutes = (app, context) => {
  app.get<OfProcess & { Querystring: z.output<typeof outputQuery> }>(
    '/process/:id/output',
    { schema: { summary: 'Read its output', ...one, querystring: outputQuery, response: { 200: outputAnswer } } },
    (request, reply) => {
      const since = Math.max(0, request.query.since_offset ?? 0);
      const signal = clientSignal(reply.raw, context.closing);
      return processesOf(context, request).output(request.params.id, since, signal);
    },
  );

  app.post<OfProcess & { Body: z.output<typeof inputBody> }>(
    '/process/:id/input',
    {
      bodyLimit: textBodyBytes,
      schema: { summary: 'Write to its standard input', ...one, body: inputBody, response: { 200: inputAnswer } },
    },
    async (request) => ({
      bytes_written: await processesOf(context, request).write(request.params.id, Buffer.from(request.body.data)),
    }),
  );

  app.post<OfProcess>(
    '/process/:id/close-stdin',
    { schema: { summary: 'Close its standard input', ...one, response: { 204: z.null() } } },
    async (request, reply) => {
      await processesOf(context, request).closeInput(request.params.id);
      return reply.code(204).send();
    },
  );
};

function processesOf(context: SidecarContext, request: Pick<FastifyRequest, 'raw'>) {
  return context.authenticated.session(request).services.processes;
}
