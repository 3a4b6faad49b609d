/** Output of an exec over HTTP: as frames, as server-sent events, or as raw bytes of one stream. */
import { isUtf8 } from 'node:buffer';
import type { ServerResponse } from 'node:http';
import type { ExecEvent, ExecsPort, OutputFrame, OutputRange } from '@boxkite/protocol';
import { BoxkiteError, encodeOutputFrame, outputFrameParts, v1 } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { errorAnswer } from '../http/error-answers.ts';
import { clientSignal, IdleTimer, write } from '../http/streams.ts';
import { type ExecParams, execParams, type SandboxContext, type SandboxRoutes } from './context.ts';
import { base64, execsOf, text } from './exec-json.ts';

type Query = z.output<typeof v1.outputQuery>;
type Request = FastifyRequest<{ Params: ExecParams; Querystring: Query }>;

/** After so long without anything a sign of life is sent. */
export const heartbeatMs = 10_000;
const SSE_MEDIA_TYPE = 'text/event-stream';

/** How events are written, and what is written when there are none. */
interface Format {
  readonly mediaType: string;
  readonly heartbeat: Uint8Array;
  encode(frame: OutputFrame): readonly Uint8Array[];
}

/** Output from an offset on, until the exec has ended. */
export const outputRoutes: SandboxRoutes = (app, context) => {
  app.get(
    '/execs/:eid/output',
    {
      schema: {
        summary: 'Read or follow its output',
        produces: [v1.outputMediaType, SSE_MEDIA_TYPE, 'application/octet-stream'],
        params: execParams(context),
        querystring: v1.outputQuery,
      },
    },
    (request: Request, reply) => output(context, request, reply),
  );
};

async function output(context: SandboxContext, request: Request, reply: FastifyReply): Promise<FastifyReply> {
  const execs = execsOf(await context.portOf(request));
  const { eid } = request.params;
  const format = formatOf(request);
  const range = rangeOf(request, format !== null);
  // An exec that is not there is answered before anything of a stream is.
  await execs.get(eid);
  const signal = clientSignal(reply.raw, context.closing);
  if (format === null) return raw(execs, eid, range, signal, reply);
  reply.hijack();
  await streamEvents(execs.output(eid, { ...range, lent: true }, signal), format, reply.raw, (error) =>
    request.log.error(error),
  );
  return reply;
}

function formatOf(request: Request): Format | null {
  const accept = request.headers.accept ?? '';
  if (accept.includes(v1.outputMediaType)) return frames();
  if (accept.includes(SSE_MEDIA_TYPE)) {
    const { stdout, stderr } = rangeOf(request, true);
    return serverSentEvents(stdout ?? 0, stderr ?? 0);
  }
  if (request.query.stream !== undefined) return null;
  throw new BoxkiteError('invalid_request', 'name a stream for raw bytes, or accept frames or events', {
    hint: `Send stream=stdout, or the header Accept with ${v1.outputMediaType} or ${SSE_MEDIA_TYPE}.`,
    details: { field: 'stream' },
  });
}

function rangeOf(request: Request, follows: boolean): OutputRange {
  const { stream, offset, stdout_offset, stderr_offset, follow } = request.query;
  if (offset !== undefined && stream === undefined) {
    throw new BoxkiteError('invalid_request', 'offset is one of a stream; name it', { details: { field: 'offset' } });
  }
  const [lastStdout, lastStderr] = lastEventId(request);
  return {
    stdout: (stream === 'stdout' ? offset : undefined) ?? lastStdout ?? stdout_offset,
    stderr: (stream === 'stderr' ? offset : undefined) ?? lastStderr ?? stderr_offset,
    only: stream,
    follow: follow ?? follows,
  };
}

function lastEventId(request: Request): readonly [number | undefined, number | undefined] {
  const header = request.headers['last-event-id'];
  const [, stdout, stderr] = /^(\d{1,15})-(\d{1,15})$/.exec(typeof header === 'string' ? header : '') ?? [];
  return stdout === undefined ? [undefined, undefined] : [Number(stdout), Number(stderr)];
}

function frames(): Format {
  return {
    mediaType: v1.outputMediaType,
    heartbeat: encodeOutputFrame({ type: 'heartbeat' }),
    encode: outputFrameParts,
  };
}

function serverSentEvents(stdout: number, stderr: number): Format {
  const next = { stdout, stderr };
  return {
    mediaType: `${SSE_MEDIA_TYPE}; charset=utf-8`,
    heartbeat: Buffer.from(': keep-alive\n\n'),
    encode(frame) {
      if (frame.type === 'output') next[frame.stream] = frame.offset + frame.data.length;
      if (frame.type === 'gap') next[frame.stream] = frame.to;
      const data = JSON.stringify(eventData(frame));
      return [Buffer.from(`id: ${next.stdout}-${next.stderr}\ndata: ${data}\n\n`)];
    },
  };
}

function eventData(frame: OutputFrame): object {
  switch (frame.type) {
    case 'output': {
      const { stream, offset, data } = frame;
      const content = isUtf8(data) ? { data: text(data) } : { data_base64: base64(data) };
      return { type: 'output', stream, offset, ...content };
    }
    case 'ended':
      return { type: 'exit', ...frame.record };
    case 'error':
      return { type: 'error', ...frame.error };
    case 'gap':
    case 'heartbeat':
      return frame;
    default:
      return frame satisfies never;
  }
}

/** Writes a stream that has begun: a failure is its last event. */
async function streamEvents(
  events: AsyncIterable<ExecEvent>,
  format: Format,
  response: ServerResponse,
  report: (error: unknown) => void,
): Promise<void> {
  response.writeHead(200, {
    'content-type': format.mediaType,
    'cache-control': 'no-cache',
    'x-accel-buffering': 'no',
  });
  response.flushHeaders();
  const idle = new IdleTimer(heartbeatMs, () => {
    // A client that does not read gets no more of them.
    if (!response.writableNeedDrain) response.write(format.heartbeat);
  });
  try {
    for await (const event of events) {
      idle.touch();
      if (!(await write(response, format.encode(event)))) return;
    }
  } catch (error) {
    if (!response.destroyed)
      void write(response, format.encode({ type: 'error', error: errorAnswer(failure(error), report).body }));
  } finally {
    idle.stop();
    response.end();
  }
}

/** The end of the server ends streams; a client goes on from its offsets at the next one. */
function failure(error: unknown): unknown {
  if (!(error instanceof BoxkiteError) || error.code !== 'aborted') return error;
  return new BoxkiteError('state_unavailable', 'the daemon is stopping');
}

/** The first kept bytes from the offset on, up to the next gap. */
async function raw(
  execs: ExecsPort,
  execId: string,
  range: OutputRange,
  signal: AbortSignal,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const events = execs.output(execId, range, signal)[Symbol.asyncIterator]();
  const start = (range.only === 'stderr' ? range.stderr : range.stdout) ?? 0;
  let offset = start;
  let found = await events.next();
  while (found.done !== true && found.value.type === 'gap') {
    offset = found.value.to;
    found = await events.next();
  }
  if (found.done !== true && found.value.type === 'output') offset = found.value.offset;
  reply.hijack();
  const response = reply.raw;
  response.writeHead(200, { 'content-type': 'application/octet-stream', [v1.outputOffsetHeader]: String(offset) });
  try {
    while (found.done !== true && found.value.type === 'output') {
      if (!(await write(response, [found.value.data]))) break;
      found = await events.next();
    }
    response.end();
  } catch {
    // What is missing can't be said in raw bytes: the connection ends without the last chunk.
    response.destroy();
  } finally {
    await events.return?.();
  }
  return reply;
}
