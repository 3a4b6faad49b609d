/** Bodies in a form that nobody here undoes: what was kept of them would not be what the client has sent. */
import type { IncomingHttpHeaders } from 'node:http';
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyInstance } from 'fastify';

/** Refuses compressed bodies, parts of a file and forms, before anything of them is read. */
export function refuseOtherForms(app: FastifyInstance): void {
  // Behind the look at the key, before the body.
  app.addHook('preParsing', (request, reply, _payload, done) => {
    if (request.method === 'GET' || request.method === 'HEAD' || request.is404) return done();
    const refusal = refusalOf(request.headers);
    if (refusal?.code === 'unsupported_media_type') reply.header('accept-encoding', 'identity');
    done(refusal);
  });
}

function refusalOf(headers: IncomingHttpHeaders): BoxkiteError | undefined {
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.toLowerCase() !== 'identity') return otherForm('a body is taken without Content-Encoding alone');
  const type = headers['content-type']?.trimStart().toLowerCase() ?? '';
  if (type.startsWith('multipart/')) return otherForm('a body is the content itself, and no form with files in it');
  if (headers['content-range'] !== undefined) {
    const hint = 'Send all of the file; a part of one is written by a command.';
    return new BoxkiteError('bad_request', 'a body is a whole, and no Content-Range of one', { hint });
  }
  const transfer = headers['transfer-encoding'] ?? 'chunked';
  if (transfer.toLowerCase() !== 'chunked') {
    const hint = 'Send the body with Content-Length, or chunked and nothing else.';
    return new BoxkiteError('unsupported', 'chunked is the one Transfer-Encoding that is taken', { hint });
  }
  return undefined;
}

function otherForm(message: string): BoxkiteError {
  return new BoxkiteError('unsupported_media_type', message, { hint: 'Send the bytes as they are to be read.' });
}
