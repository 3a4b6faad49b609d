/** The reference's background processes: views over execs of one form. */

import { clientSignal, execsOf, processOf, processRequest, processStatus, text } from '@boxkite/kit';
import type { ExecSummary, ExecsPort } from '@boxkite/protocol';
import { BoxkiteError, v1 } from '@boxkite/protocol';
import type { z } from 'zod';
import { idempotent } from '../http/idempotency.ts';
import type { Routes } from './context.ts';
import { execParams, portOf, sandboxParams } from './context.ts';
import { streamProcess } from './process-stream.ts';

type Id = { Params: z.output<typeof sandboxParams> };
type ProcessId = { Params: z.output<typeof execParams> };
type Since = ProcessId & { Querystring: z.output<typeof v1.processOutputQuery> };

const STOP_GRACE_MS = 5000;

const one = { params: execParams };

/** Background processes: started, listed, fed, stopped. */
export const processRoutes: Routes = (app, context) => {
  app.post<Id & { Body: z.output<typeof v1.startProcessBody> }>(
    '/sandboxes/:id/processes',
    {
      ...idempotent(context.idempotency),
      schema: {
        summary: 'Start a background process',
        params: sandboxParams,
        body: v1.startProcessBody,
        response: { 201: v1.startedProcess },
      },
    },
    async (request, reply) => {
      const { command, description, max_runtime_seconds, expose_port } = request.body;
      if (expose_port != null) throw new BoxkiteError('unsupported', 'no port of a sandbox can be reached yet');
      const execs = execsOf(await portOf(context, request));
      const started = await execs.start(processRequest(command, description ?? null, max_runtime_seconds));
      return reply.code(201).send(startedJson(started));
    },
  );

  app.get<Id>(
    '/sandboxes/:id/processes',
    { schema: { summary: 'List background processes', params: sandboxParams, response: { 200: v1.processList } } },
    async (request) => {
      const all = await execsOf(await portOf(context, request)).list();
      return { processes: all.flatMap((summary) => listedJson(summary) ?? []) };
    },
  );

  app.post<ProcessId & { Body: z.output<typeof v1.processInputBody> }>(
    '/sandboxes/:id/processes/:eid/input',
    { schema: { summary: 'Write to its input', ...one, body: v1.processInputBody, response: { 200: v1.inputAnswer } } },
    async (request) => {
      const execs = execsOf(await portOf(context, request));
      await processExec(execs, request.params.eid);
      const data = Buffer.from(request.body.data, 'utf8');
      await execs.write(request.params.eid, data);
      return { bytes_written: data.length };
    },
  );

  app.post<ProcessId>(
    '/sandboxes/:id/processes/:eid/stop',
    { schema: { summary: 'Stop a background process', ...one, response: { 200: v1.stoppedProcess } } },
    async (request) => {
      const execs = execsOf(await portOf(context, request));
      const { eid } = request.params;
      await stop(execs, eid);
      return processStatus((await processExec(execs, eid)).record);
    },
  );
};

/** What background processes wrote. */
export const processOutputRoutes: Routes = (app, context) => {
  app.get<Since>(
    '/sandboxes/:id/processes/:eid/output',
    {
      schema: {
        summary: 'Read output of a background process',
        ...one,
        querystring: v1.processOutputQuery,
        response: { 200: v1.processOutput },
      },
    },
    async (request, reply) => {
      const execs = execsOf(await portOf(context, request));
      const signal = clientSignal(reply.raw, context.closing);
      return output(execs, request.params.eid, request.query.since_offset ?? 0, signal);
    },
  );

  app.get<Since>(
    '/sandboxes/:id/processes/:eid/stream',
    { schema: { summary: 'Follow output of a background process', ...one, querystring: v1.processOutputQuery } },
    async (request, reply) => {
      const execs = execsOf(await portOf(context, request));
      const { eid } = request.params;
      const { stdout_bytes } = await processExec(execs, eid);
      const stdout = Math.min(request.query.since_offset ?? 0, stdout_bytes);
      const events = execs.output(eid, { stdout, only: 'stdout' }, clientSignal(reply.raw, context.closing));
      reply.hijack();
      await streamProcess(events, reply.raw, (error) => request.log.error(error));
      return reply;
    },
  );
};

/** Errors: `not_found`, also for an exec that is no such process. */
async function processExec(execs: ExecsPort, execId: string): Promise<ExecSummary> {
  const summary = await execs.get(execId);
  if (processOf(summary.argv) === null) throw new BoxkiteError('not_found', 'there is no such process');
  return summary;
}

function startedJson({ exec_id, started_at, record }: ExecSummary) {
  return { process_id: exec_id, status: processStatus(record).status, started_at };
}

function listedJson(summary: ExecSummary) {
  const process = processOf(summary.argv);
  if (process === null) return null;
  const { exit_code } = processStatus(summary.record);
  return { ...startedJson(summary), ...process, exit_code, expose_port: null };
}

async function output(execs: ExecsPort, execId: string, since: number, signal: AbortSignal) {
  const { record, stdout_bytes } = await processExec(execs, execId);
  const chunks: Uint8Array[] = [];
  let next = Math.min(since, stdout_bytes);
  let truncated = false;
  for await (const event of execs.output(execId, { stdout: next, only: 'stdout', follow: false }, signal)) {
    if (event.type === 'gap') {
      truncated = true;
      next = event.to;
    } else if (event.type === 'output') {
      chunks.push(event.data);
      next = event.offset + event.data.length;
    }
  }
  return { ...processStatus(record), stdout_chunk: text(Buffer.concat(chunks)), next_offset: next, truncated };
}

/** TERM, time to end by itself, then KILL of everything. */
async function stop(execs: ExecsPort, execId: string): Promise<void> {
  const { record, stdout_bytes } = await processExec(execs, execId);
  if (record !== null) return;
  const grace = AbortSignal.timeout(STOP_GRACE_MS);
  try {
    await execs.signal(execId, 'SIGTERM');
    for await (const event of execs.output(execId, { stdout: stdout_bytes, only: 'stdout' }, grace)) {
      if (event.type === 'ended') return;
    }
  } catch (error) {
    if (error instanceof BoxkiteError && error.code === 'exec_ended') return;
    if (!grace.aborted) throw error;
  }
  await execs.kill(execId);
}
