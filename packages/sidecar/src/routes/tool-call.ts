/** `POST /tool-call`: a call that the deployment's backend answers. */
import { clientSignal } from '@boxkite/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { callTool } from '../session/tool-call.ts';
import type { SidecarRoutes } from './context.ts';
import { toolCallBody } from './tool-call-schemas.ts';

/** Tool calls. */
export const toolCallRoutes: SidecarRoutes = (app, { authenticated, closing }) => {
  app.post(
    '/tool-call',
    { schema: { summary: 'Have the backend call a tool; its failures are in the answer', body: toolCallBody } },
    async (request: FastifyRequest<{ Body: z.output<typeof toolCallBody> }>, reply: FastifyReply) => {
      const session = authenticated.session(request);
      const { tool_name, arguments: given } = request.body;
      const call = { tool_name, arguments: given ?? {}, session_id: session.configured?.session_id ?? null };
      const answer = await callTool(session.settings.backendUrl, call, clientSignal(reply.raw, closing));
      reply.header('content-type', 'application/json; charset=utf-8');
      return reply.send(answer);
    },
  );
};
