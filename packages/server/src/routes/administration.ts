import { v1 } from '@boxkite/protocol';
import { z } from 'zod';
import { requireAdmin } from '../http/authentication.ts';
import type { Routes } from './context.ts';

const keyParams = z.object({ id: z.string().describe('Id of the key') });

/** What administrators alone may do: the state of the daemon, and keys. */
export const administrationRoutes: Routes = (app, context) => {
  const { keys } = context;
  app.addHook('onRequest', async (request) => requireAdmin(request));

  app.get('/status', { schema: { summary: 'What the daemon is and does', response: { 200: v1.status } } }, () =>
    status(context),
  );

  app.post<{ Body: z.output<typeof v1.createKeyBody> }>(
    '/api-keys',
    { schema: { summary: 'Make a key', body: v1.createKeyBody, response: { 201: v1.createdKey } } },
    async (request, reply) => {
      const { name, account = request.principal.account, admin = false } = request.body;
      return reply.code(201).send(await keys.create(name, account, admin));
    },
  );

  app.get('/api-keys', { schema: { summary: 'List keys', response: { 200: v1.apiKeyList } } }, async () => keys.list());

  app.delete<{ Params: z.output<typeof keyParams> }>(
    '/api-keys/:id',
    { schema: { summary: 'Revoke a key', params: keyParams, response: { 204: z.null() } } },
    async (request, reply) => {
      await keys.revoke(request.params.id);
      return reply.code(204).send();
    },
  );
};

async function status({ manager, facts }: Parameters<Routes>[1]): Promise<v1.Status> {
  const { limits } = manager;
  const measured = await manager.measure();
  return {
    ...facts,
    pid: process.pid,
    sandboxes: manager.counts(),
    execs: [...measured.values()].reduce((sum, { execs }) => sum + execs, 0),
    memory_bytes: process.memoryUsage.rss(),
    limits: {
      sandboxes: limits.total,
      sandboxes_per_account: limits.perAccount,
      default_lifetime_minutes: limits.defaultLifetimeMinutes,
      max_lifetime_minutes: limits.maxLifetimeMinutes,
    },
    unknown_workspaces: [...manager.unknownWorkspaces],
  };
}
