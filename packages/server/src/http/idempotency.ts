import { createHash } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { IdempotencyStore } from '../database/idempotency-store.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body as it came, where an Idempotency-Key needs it. */
    rawBody: string | null;
    /** What this request is the first one of. */
    idempotencyScope: string | null;
  }
}

const MAX_KEY_LENGTH = 255;
const REPLAYED = 'idempotent-replayed';

/** Prepares requests for `idempotent`. */
export function decorateIdempotency(app: FastifyInstance): void {
  app.decorateRequest('rawBody', null);
  app.decorateRequest('idempotencyScope', null);
}

/** Hooks of a route: the first call with a key is carried out, later ones get its answer. */
export function idempotent(store: IdempotencyStore) {
  return {
    config: { headers: ['idempotency-key'] as const },
    preHandler: async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
      const key = keyOf(request);
      if (key === null) return undefined;
      const { principal, method } = request;
      const scope = sha256([key, principal.keyId, method, request.url.split('?', 1)[0] ?? ''].join('\0'));
      const claim = await store.claim(scope, sha256(request.rawBody ?? ''));
      if (claim.kind !== 'answered') {
        refuse(claim.kind);
        request.idempotencyScope = scope;
        return undefined;
      }
      request.idempotencyScope = null;
      return reply
        .code(claim.status)
        .header(REPLAYED, 'true')
        .header('content-type', 'application/json; charset=utf-8')
        .send(Buffer.from(claim.body));
    },
    onSend: async (request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<void> => {
      const scope = request.idempotencyScope;
      if (scope === null) return;
      request.idempotencyScope = null;
      try {
        if (reply.statusCode < 400 && typeof payload === 'string') {
          await store.answer(scope, reply.statusCode, Buffer.from(payload));
        } else await store.release(scope);
      } catch (error) {
        // The call was carried out; its answer is worth more than its repetition.
        request.log.error(error, 'the answer to an Idempotency-Key was not stored');
      }
    },
  };
}

function refuse(kind: 'first' | 'reused' | 'running' | 'unknown'): void {
  if (kind === 'reused') {
    throw new BoxkiteError('idempotency_key_reuse', 'the Idempotency-Key was sent before with another body');
  }
  if (kind === 'running') {
    throw new BoxkiteError('idempotency_key_in_progress', 'the first call with this Idempotency-Key is still running');
  }
  if (kind === 'unknown') {
    throw new BoxkiteError('conflict', 'the first call with this Idempotency-Key was cut off by a restart', {
      hint: 'Look at what it has done, then use a new key.',
    });
  }
}

function keyOf(request: FastifyRequest): string | null {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key === 'string' && key.length > 0 && key.length <= MAX_KEY_LENGTH) return key;
  throw new BoxkiteError('invalid_request', `an Idempotency-Key has 1 to ${MAX_KEY_LENGTH} characters`, {
    details: { field: 'Idempotency-Key' },
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
