/** Texts of a query, as they were meant. */
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyInstance } from 'fastify';

/** Escapes that are no text would stand for themselves, so that a path would be that of another file. */
export function refuseUnreadableQueries(app: FastifyInstance): void {
  // Behind the look at the key.
  app.addHook('preParsing', (request, _reply, _payload, done) => {
    const begin = request.url.indexOf('?');
    done(begin === -1 || isText(request.url.slice(begin)) ? null : unreadable());
  });
}

function isText(query: string): boolean {
  if (!query.includes('%')) return true;
  try {
    decodeURIComponent(query);
    return true;
  } catch {
    return false;
  }
}

function unreadable(): BoxkiteError {
  const hint = 'Send the UTF-8 of the text, percent-encoded; % itself is %25.';
  return new BoxkiteError('bad_request', 'the query of the URL is not valid', { hint });
}
