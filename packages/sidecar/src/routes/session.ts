/** What a sandbox is used for. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { listText } from '../session/allowed-commands.ts';
import { blankConfiguration, type Configuration } from '../session/configuration.ts';
import type { SidecarRoutes } from './context.ts';
import { configureBody } from './session-schemas.ts';
import { restoreAnswer } from './storage.ts';

type Body = z.output<typeof configureBody>;

/** Configuration. */
export const sessionRoutes: SidecarRoutes = (app, { authenticated }) => {
  app.post(
    '/configure',
    { schema: { summary: 'Begin a new use of the sandbox', body: configureBody } },
    async (request: FastifyRequest<{ Body: Body }>) => {
      const { body } = request;
      const session = authenticated.anyUse(request);
      const { storage } = session.services;
      const configuration = { ...configurationOf(body), storage_prefix: storage.prefixOf(body) };
      const { generation, session_id } = await session.configure(configuration, body.generation ?? undefined);
      return { status: 'configured', session_id, ...restoreAnswer(storage.restored), generation };
    },
  );
};

function configurationOf(body: Body): Configuration {
  return {
    ...blankConfiguration,
    session_id: body.session_id ?? null,
    organization_id: body.organization_id ?? null,
    work_item_id: body.work_item_id ?? null,
    upload_file_ids: body.upload_file_ids ?? [],
    secret_names: body.secret_names ?? [],
    secret_allowed_hosts: body.secret_allowed_hosts ?? {},
    secret_capability_token: body.secret_capability_token || null,
    secrets_control_plane_url: body.secrets_control_plane_url || null,
    sandbox_allowed_commands: listText(body.sandbox_allowed_commands),
  };
}
