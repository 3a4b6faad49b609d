import { v1 } from '@boxkite/protocol';
import { z } from 'zod';
import { sizes } from '../http/deadlines.ts';
import { clientSignal } from '../http/streams.ts';
import { type ExecParams, execParams, type SandboxRoutes } from './context.ts';
import { execAnswer, execRequest, execsOf, startRequest } from './exec-json.ts';

interface ExecId {
  Params: ExecParams;
}

const done = { response: { 204: z.null() } } as const;

/** Commands that are run to their end. */
export const runRoutes: SandboxRoutes = (app, context) => {
  app.post<{ Body: z.output<typeof v1.execBody> }>(
    '/exec',
    {
      ...context.creates,
      schema: {
        summary: 'Run a command to its end',
        params: context.params,
        body: v1.execBody,
        response: { 200: v1.execAnswer },
      },
    },
    async (request, reply) => {
      const port = await context.portOf(request);
      const collected = await execsOf(port).run(execRequest(request.body), clientSignal(reply.raw, NEVER));
      return execAnswer(collected);
    },
  );
};

/** Commands that are started and listed. */
export const execRoutes: SandboxRoutes = (app, context) => {
  app.post<{ Body: z.output<typeof v1.startExecBody> }>(
    '/execs',
    {
      ...context.creates,
      schema: {
        summary: 'Start a command',
        params: context.params,
        body: v1.startExecBody,
        response: { 201: v1.execSummary },
      },
    },
    async (request, reply) => {
      const port = await context.portOf(request);
      return reply.code(201).send(await execsOf(port).start(startRequest(request.body)));
    },
  );

  app.get(
    '/execs',
    { schema: { summary: 'List commands', params: context.params, response: { 200: v1.execList } } },
    async (request) => ({ execs: await execsOf(await context.portOf(request)).list() }),
  );

  app.get<ExecId>(
    '/execs/:eid',
    { schema: { summary: 'Look at a command', params: execParams(context), response: { 200: v1.execSummary } } },
    async (request) => execsOf(await context.portOf(request)).get(request.params.eid),
  );
};

/** A command that is run to its end is ended by its sandbox, not by the server: its answer then says so. */
const NEVER = new AbortController().signal;

/** What is done to a command that runs. */
export const execControlRoutes: SandboxRoutes = (app, context) => {
  const one = { params: execParams(context) };

  app.post<ExecId>(
    '/execs/:eid/close-stdin',
    { schema: { summary: 'Close its standard input', ...one, ...done } },
    async (request, reply) => {
      await execsOf(await context.portOf(request)).closeStdin(request.params.eid);
      return reply.code(204).send();
    },
  );

  app.post<ExecId & { Body: z.output<typeof v1.signalBody> }>(
    '/execs/:eid/signal',
    { schema: { summary: 'Signal or kill it', ...one, body: v1.signalBody, ...done } },
    async (request, reply) => {
      const execs = execsOf(await context.portOf(request));
      const { signal } = request.body;
      await (signal === undefined ? execs.kill(request.params.eid) : execs.signal(request.params.eid, signal));
      return reply.code(204).send();
    },
  );

  app.post<ExecId & { Body: z.output<typeof v1.resizeBody> }>(
    '/execs/:eid/resize',
    { schema: { summary: 'Resize its terminal', ...one, body: v1.resizeBody, ...done } },
    async (request, reply) => {
      const { columns, rows } = request.body;
      await execsOf(await context.portOf(request)).resize(request.params.eid, columns, rows);
      return reply.code(204).send();
    },
  );
};

/** Input as raw bytes; this scope parses no other body. */
export const execInputRoutes: SandboxRoutes = (app, context) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>(/^/, { parseAs: 'buffer', bodyLimit: sizes.input }, (_request, body, callback) =>
    callback(null, body),
  );
  app.post<ExecId & { Body: Buffer | undefined }>(
    '/execs/:eid/input',
    {
      bodyLimit: sizes.input,
      schema: {
        summary: 'Write to its standard input',
        consumes: ['application/octet-stream'],
        params: execParams(context),
        response: { 200: v1.inputAnswer },
      },
    },
    async (request) => {
      const data = request.body ?? Buffer.alloc(0);
      await execsOf(await context.portOf(request)).write(request.params.eid, data);
      return { bytes_written: data.length };
    },
  );
};
