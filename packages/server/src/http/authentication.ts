import { BoxkiteError, v1 } from '@boxkite/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { KeyStore, Principal } from '../database/key-store.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; set before the handler of every route below /v1. */
    principal: Principal;
  }
}

const BEARER = /^bearer +(\S+) *$/i;

/** Refuses every request to the routes of this scope that carries no key. It reads nothing but headers. */
export function requireKey(app: FastifyInstance, keys: KeyStore): void {
  app.decorateRequest('principal');
  app.addHook('onRequest', (request, reply, done) => {
    const key = keyOf(request);
    if (key === null) return done(new BoxkiteError('missing_credentials', 'no API key was sent'));
    const principal = keys.authenticate(key);
    if (principal === null) return done(new BoxkiteError('invalid_api_key', 'the API key is not known, or is revoked'));
    request.principal = principal;
    if (request.method === 'GET') endWithKey(keys, request, reply);
    done();
  });
}

/** What goes on for long, a followed output or an attached terminal, ends with its key; a call that was taken is carried out. */
function endWithKey(keys: KeyStore, { principal, ws, raw: { socket } }: FastifyRequest, reply: FastifyReply): void {
  const stop = keys.whenRevoked(principal.keyId, () => socket.destroy());
  // An upgraded connection outlives its response.
  (ws ? socket : reply.raw).once('close', stop);
}

/** Errors: `admin_required`. */
export function requireAdmin(request: FastifyRequest): void {
  if (!request.principal.admin) throw new BoxkiteError('admin_required', 'this needs the key of an administrator');
}

function keyOf(request: FastifyRequest): string | null {
  const { authorization } = request.headers;
  if (authorization !== undefined) return BEARER.exec(authorization)?.[1] ?? null;
  // A browser can't set headers of a WebSocket.
  const protocols = request.headers['sec-websocket-protocol'];
  if (protocols === undefined) return null;
  const offered = protocols.split(',').map((name) => name.trim());
  const bearer = offered.find((name) => name.startsWith(v1.bearerProtocolPrefix));
  return bearer?.slice(v1.bearerProtocolPrefix.length) ?? null;
}
