import { clientSignal } from '@boxkite/kit';
import { BoxkiteError, v1 } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { idempotent } from '../http/idempotency.ts';
import { sandboxJson } from '../services/sandbox-json.ts';
import { sandboxSpec } from '../services/sandbox-spec.ts';
import type { Context, Routes } from './context.ts';
import { sandboxParams } from './context.ts';

type Id = { Params: z.output<typeof sandboxParams> };

/** Sandboxes: made, listed, extended, stopped, started, destroyed. */
export const sandboxRoutes: Routes = (app, context) => {
  const { manager, idempotency } = context;
  const one = { params: sandboxParams };

  app.post<{ Body: z.output<typeof v1.createSandboxBody> }>(
    '/sandboxes',
    {
      ...idempotent(idempotency),
      schema: { summary: 'Make sandboxes', body: v1.createSandboxBody, response: { 201: v1.createdSandboxes } },
    },
    (request, reply) => create(context, request, reply),
  );

  app.get<{ Querystring: z.output<typeof v1.listSandboxesQuery> }>(
    '/sandboxes',
    { schema: { summary: 'List sandboxes', querystring: v1.listSandboxesQuery, response: { 200: v1.sandboxList } } },
    (request, reply) => list(context, request, reply),
  );

  app.get<Id>(
    '/sandboxes/:id',
    { schema: { summary: 'Look at a sandbox', ...one, response: { 200: v1.sandbox } } },
    async (request) => sandboxJson(await manager.get(request.params.id, request.principal)),
  );

  app.delete<Id>(
    '/sandboxes/:id',
    { schema: { summary: 'Destroy a sandbox', ...one, response: { 204: z.null() } } },
    async (request, reply) => {
      await manager.destroy(request.params.id, request.principal);
      return reply.code(204).send();
    },
  );

  app.post<Id & { Body: z.output<typeof v1.extendBody> }>(
    '/sandboxes/:id/extend',
    { schema: { summary: 'Move the end of its life', ...one, body: v1.extendBody, response: { 200: v1.sandbox } } },
    async (request) => sandboxJson(await manager.extend(request.params.id, request.principal, request.body.minutes)),
  );

  app.post<Id>(
    '/sandboxes/:id/stop',
    { schema: { summary: 'End everything in it and keep its files', ...one, response: { 200: v1.sandbox } } },
    async (request) => sandboxJson(await manager.stop(request.params.id, request.principal)),
  );

  app.post<Id>(
    '/sandboxes/:id/start',
    { schema: { summary: 'Make a stopped one ready again', ...one, response: { 200: v1.sandbox } } },
    async (request, reply) => {
      const signal = clientSignal(reply.raw, context.closing);
      return sandboxJson(await manager.start(request.params.id, request.principal, signal));
    },
  );
};

async function create(
  { manager, machine, closing }: Context,
  request: FastifyRequest<{ Body: z.output<typeof v1.createSandboxBody> }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { body, principal } = request;
  const spec = sandboxSpec(body, machine);
  const count = body.count ?? 1;
  const signal = clientSignal(reply.raw, closing);
  const made = await manager.create(principal.account, spec, { count, signal });
  const usage = await manager.usage(principal.account);
  const answers = made.map((summary) => ({ ...sandboxJson(summary), usage }));
  return reply.code(201).send(count > 1 ? answers : answers[0]);
}

async function list(
  { manager }: Context,
  request: FastifyRequest<{ Querystring: z.output<typeof v1.listSandboxesQuery> }>,
  reply: FastifyReply,
): Promise<readonly v1.ListedSandbox[]> {
  const { active_only, limit, cursor, usage } = request.query;
  const page = await manager.list(request.principal, {
    activeOnly: active_only === true,
    limit: limit ?? null,
    after: cursor === undefined ? 0 : sequence(cursor),
  });
  if (page.next !== null) reply.header('link', nextLink(request.query, page.next));
  if (usage !== true) return page.sandboxes.map(sandboxJson);
  const measured = await manager.measure();
  return page.sandboxes.map((summary) => ({ ...sandboxJson(summary), usage: measured.get(summary.id) ?? null }));
}

function sequence(cursor: string): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw new BoxkiteError('invalid_request', 'cursor is not one of a Link', { details: { field: 'cursor' } });
}

function nextLink(query: z.output<typeof v1.listSandboxesQuery>, next: number): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...query, cursor: String(next) })) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  return `</v1/sandboxes?${parameters}>; rel="next"`;
}
