/** An exec as its caller asks for it, in the words of the runner. */
import { posix } from 'node:path';
import { refusedEnvironmentName } from '@boxkite/policy';
import { BoxkiteError, defaultOutputBytes, type ExecRequest } from '@boxkite/protocol';
import { TERMINAL_TYPE } from '@boxkite/runner-client';
import { MOST_LOG_BYTES } from '../records/record-store.ts';
import type { Window } from '../records/stream-log.ts';

const WORKSPACE = '/workspace';

/** A request, with what no client says. */
export interface SessionExecRequest extends ExecRequest {
  /** What the values of `secret_env` are shown as, by variable. Default: the variables, in the placeholder of known values. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** What its record keeps of each stream. Default: as `limits.output_bytes` says. */
  readonly keeps?: Window | undefined;
}

/** The request with its defaults, and its secrets among the other variables. Errors: `invalid_request`. */
export function runnerRequest(request: SessionExecRequest): ExecRequest & { readonly cwd: string } {
  const { env, secret_env, labels: _, keeps: __, ...rest } = request;
  checkNames('env', env);
  checkNames('secret_env', secret_env);
  const terminal = request.tty === undefined ? undefined : { TERM: TERMINAL_TYPE };
  const all = terminal === undefined && secret_env === undefined ? env : { ...terminal, ...env, ...secret_env };
  return { ...rest, cwd: directory(request.cwd), env: all };
}

/** How much of each stream its record keeps: half from the start, half from the end. Errors: `invalid_request`. */
export function windowOf(request: SessionExecRequest): Window {
  if (request.keeps !== undefined) return request.keeps;
  const bytes = request.limits?.output_bytes ?? defaultOutputBytes;
  if (!Number.isInteger(bytes) || bytes < 0 || bytes > MOST_LOG_BYTES) {
    throw new BoxkiteError('invalid_request', `limits.output_bytes: must be a whole number up to ${MOST_LOG_BYTES}`, {
      details: { field: 'limits.output_bytes' },
    });
  }
  const head = Math.ceil(bytes / 2);
  return { head, tail: bytes - head };
}

function directory(cwd: unknown): string {
  if (cwd === undefined) return WORKSPACE;
  if (typeof cwd === 'string') return posix.resolve(WORKSPACE, cwd);
  throw new BoxkiteError('invalid_request', 'cwd is to be a string', { details: { field: 'cwd' } });
}

function checkNames(field: string, variables: Readonly<Record<string, string>> | undefined): void {
  for (const name in variables) {
    const refusal = refusedEnvironmentName(name);
    if (refusal !== null) {
      throw new BoxkiteError('invalid_request', `${field}: ${name} ${refusal}`, { details: { field } });
    }
  }
}
