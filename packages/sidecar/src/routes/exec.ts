/** `POST /exec` as the reference has it: every way in which a command ends is an answer with 200. */
import { clientSignal, noNetwork, text } from '@boxkite/kit';
import type { CollectedExec, ExecRecord, ExecRequest } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Omissions } from '../session/client-execs.ts';
import { exitCodeOf } from '../session/exit-code.ts';
import type { SidecarRoutes } from './context.ts';
import { execBody } from './exec-schemas.ts';

type Body = z.output<typeof execBody>;
type Request = FastifyRequest<{ Body: Body }>;

const DEFAULT_TIMEOUT_SECONDS = 30;
const TIMED_OUT = 124;
/** First bytes of each stream that the answer has. */
const MOST_STDOUT = 1_048_576;
const MOST_STDERR = 262_144;

/** The reference's exec. */
export const referenceExecRoutes: SidecarRoutes = (app, context) => {
  app.post(
    '/exec',
    { schema: { summary: 'Run a shell command to its end', body: execBody } },
    async (request: Request, reply: FastifyReply) => {
      const { body } = request;
      if (body.network === 'session') throw noNetwork();
      const seconds = body.timeout ?? DEFAULT_TIMEOUT_SECONDS;
      const { granted, services } = context.authenticated.session(request);
      if (seconds <= 0) return services.budget.run(() => Promise.resolve(overAtOnce(seconds)));
      // A command outlives neither its client nor, with the sandbox, this process.
      const collected = await granted.run(execRequest(body, seconds), clientSignal(reply.raw, NEVER));
      return answer(collected, body, seconds);
    },
  );
};

const NEVER = new AbortController().signal;

function execRequest(body: Body, seconds: number): ExecRequest {
  return {
    argv: ['sh', '-c', body.command],
    cwd: body.cwd ?? undefined,
    secret_env: body.secret_env ?? undefined,
    stdin: body.stdin == null ? undefined : Buffer.from(body.stdin),
    tty: body.tty ?? undefined,
    timeout_ms: seconds * 1000,
    fresh: body.fresh ?? undefined,
    overflow: body.overflow ?? undefined,
    limits: body.limits ?? undefined,
  };
}

function answer(
  { record, secret_env_omitted, ...output }: CollectedExec & Omissions,
  body: Body,
  seconds: number,
): object {
  const stdout = first(output.stdout, output.stdout_truncated, MOST_STDOUT, body);
  const stderr = first(output.stderr, output.stderr_truncated, MOST_STDERR, body);
  const { end, signal, reason, stdout_bytes, stderr_bytes, duration_ms, usage, effective, exec_id } = record;
  return {
    exit_code: exitCode(record),
    stdout: text(stdout.bytes),
    stderr: text(stderr.bytes) + (end === 'timed_out' ? timeoutNote(seconds) : ''),
    exec_id,
    end,
    signal,
    reason,
    stdout_bytes,
    stderr_bytes,
    stdout_truncated: stdout.truncated,
    stderr_truncated: stderr.truncated,
    duration_ms,
    usage,
    effective,
    secret_env_omitted,
  };
}

/** Where the middle is missing, only what comes before it is the beginning. */
function first(
  bytes: Uint8Array,
  truncated: boolean,
  most: number,
  body: Body,
): { readonly bytes: Uint8Array; readonly truncated: boolean } {
  const asked = body.limits?.output_bytes;
  const whole = truncated && asked !== undefined ? Math.min(most, Math.ceil(asked / 2)) : most;
  return { bytes: bytes.subarray(0, whole), truncated: truncated || bytes.length > whole };
}

function exitCode(record: ExecRecord): number {
  return record.end === 'timed_out' ? TIMED_OUT : (exitCodeOf(record) ?? 1);
}

function timeoutNote(seconds: number): string {
  return `Command timed out after ${seconds} seconds`;
}

/** Nothing is started. */
function overAtOnce(seconds: number): object {
  return {
    exit_code: TIMED_OUT,
    stdout: '',
    stderr: timeoutNote(seconds),
    exec_id: null,
    end: 'timed_out',
    signal: null,
    reason: null,
    stdout_bytes: 0,
    stderr_bytes: 0,
    stdout_truncated: false,
    stderr_truncated: false,
    duration_ms: 0,
    usage: { cpu_ms: null, memory_peak_bytes: null },
    effective: null,
    secret_env_omitted: [],
  };
}
