/** Keeps a client waiting that takes silence for the end. */
import type { FastifyInstance } from 'fastify';

/** The published library gives up when no byte comes for 120 s, and 30 s at `/configure`; its tools promise 600. */
const EVERY_MS = 10_000;
/**
 * What takes an interim answer for what it is, as HTTP wants it. Others get none: to Python's `http.client` it is the
 * answer itself.
 */
const PATIENT = 'python-httpx/';

/** Sends interim answers (102) while a request of such a client waits for its answer; each restarts its clock. */
export function keepWaiting(app: FastifyInstance, everyMs: number = EVERY_MS): void {
  app.addHook('onRequest', (request, { raw }, done) => {
    if (request.headers['user-agent']?.startsWith(PATIENT) === true && request.raw.httpVersion === '1.1') {
      const timer = setInterval(() => {
        if (raw.headersSent) clearInterval(timer);
        else raw.writeProcessing();
      }, everyMs).unref();
      raw.once('close', () => clearInterval(timer));
    }
    done();
  });
}
