import type { SandboxManager } from '@boxkite/manager';
import type { SandboxPort, v1 } from '@boxkite/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { IdempotencyStore } from '../database/idempotency-store.ts';
import type { KeyStore } from '../database/key-store.ts';
import type { MachineLimits } from '../services/sandbox-spec.ts';

/** What the answer to `GET /v1/status` takes from outside the manager. */
export type StatusFacts = Pick<v1.Status, 'version' | 'instance' | 'runner' | 'data_directory' | 'started_at'>;

/** What routes work with. */
export interface Context {
  readonly manager: SandboxManager;
  readonly keys: KeyStore;
  readonly idempotency: IdempotencyStore;
  readonly machine: MachineLimits;
  readonly facts: StatusFacts;
  /** Aborted when the server begins to close: long answers end then. */
  readonly closing: AbortSignal;
}

/** Adds routes to an app. */
export type Routes = (app: FastifyInstance, context: Context) => void;

/** `{id}` of a sandbox. */
export const sandboxParams = z.object({ id: z.string().describe('Id of the sandbox') });
/** `{id}` of a sandbox and `{eid}` of an exec. */
export const execParams = sandboxParams.extend({ eid: z.string().describe('Id of the exec') });

/** The port of the sandbox that a request names. Errors: `not_found`, `sandbox_not_ready`, `closing`. */
export function portOf(context: Context, request: FastifyRequest<{ Params: { id: string } }>): Promise<SandboxPort> {
  return context.manager.port(request.params.id, request.principal);
}
