import type { SandboxPort } from '@boxkite/protocol';
import type { FastifyInstance, FastifyRequest, RouteShorthandOptions } from 'fastify';
import { z } from 'zod';

declare module 'fastify' {
  /** The words that a document of the routes is made from. */
  interface FastifySchema {
    summary?: string;
    consumes?: readonly string[];
    produces?: readonly string[];
  }
}

/** What routes of one sandbox work with, wherever they stand. */
export interface SandboxContext {
  /** The sandbox that a request is about; rejects with what its client is to be told. */
  portOf(request: Pick<FastifyRequest, 'params' | 'raw'>): Promise<Pick<SandboxPort, 'execs' | 'files'>>;
  /** Path parameters that lead to the sandbox. */
  readonly params: z.ZodObject;
  /** Hooks of routes that start something. */
  readonly creates: Pick<RouteShorthandOptions, 'preHandler' | 'onSend'>;
  /** Aborted when the app begins to close: long answers end then. */
  readonly closing: AbortSignal;
}

/** Adds routes to an app. */
export type SandboxRoutes = (app: FastifyInstance, context: SandboxContext) => void;

/** Path parameters of an exec. */
export function execParams(context: SandboxContext) {
  return context.params.extend({ eid: z.string().describe('Id of the exec') });
}

/** See `execParams`. */
export interface ExecParams {
  readonly eid: string;
}
