/** `/interpreter/*`: a Python interpreter that keeps its state. However code ends, its end is a field of an answer with 200. */
import { clientSignal } from '@boxkite/kit';
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { SidecarRoutes } from './context.ts';
import { interpreterExecBody } from './interpreter-schemas.ts';
import { textBodyBytes } from './schema-parts.ts';

type Body = z.output<typeof interpreterExecBody>;

const DEFAULT_TIMEOUT_SECONDS = 30;
const NEVER = new AbortController().signal;

/** Running code, and what it is run by. */
export const interpreterRoutes: SidecarRoutes = (app, { authenticated }) => {
  app.post(
    '/interpreter/exec',
    {
      bodyLimit: textBodyBytes,
      schema: { summary: 'Run Python code that keeps its state', body: interpreterExecBody },
    },
    async (request: FastifyRequest<{ Body: Body }>, reply: FastifyReply) => {
      const { code, timeout = DEFAULT_TIMEOUT_SECONDS } = request.body;
      if (code.trim() === '') throw new BoxkiteError('bad_request', 'code is blank', { details: { field: 'code' } });
      const session = authenticated.session(request);
      const timeoutSeconds = Math.min(Math.max(timeout, 1), session.settings.interpreter.maxCallSeconds);
      const signal = clientSignal(reply.raw, NEVER);
      try {
        return await session.services.interpreter.run({ code, timeoutSeconds, signal });
      } finally {
        session.touch();
      }
    },
  );

  app.post(
    '/interpreter/reset',
    { schema: { summary: 'End the interpreter, and with it its state' } },
    async (request) => {
      await authenticated.session(request).services.interpreter.end();
      return { status: 'reset' };
    },
  );

  app.get('/interpreter/status', { schema: { summary: 'What there is of the interpreter' } }, (request) =>
    authenticated.session(request).services.interpreter.status(),
  );
};
