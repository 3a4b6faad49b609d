import type { ServerResponse } from 'node:http';

/** Ended by a client that leaves before its answer is complete, and by the end of the server. */
export function clientSignal(response: ServerResponse, server: AbortSignal): AbortSignal {
  const controller = new AbortController();
  // One that has left already is not told of again.
  if (response.destroyed || server.aborted) {
    controller.abort(server.reason);
    return controller.signal;
  }
  const stop = (): void => controller.abort(server.reason);
  server.addEventListener('abort', stop, { once: true });
  response.once('close', () => {
    server.removeEventListener('abort', stop);
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}

/**
 * Writes the parts as one piece. Resolves when the system has them all, so that their memory is the caller's again: false
 * where the client has left.
 */
export function write(response: ServerResponse, parts: readonly Uint8Array[]): boolean | Promise<boolean> {
  if (response.destroyed) return false;
  const written = Promise.withResolvers<void>();
  const { socket } = response;
  socket?.cork();
  response.cork();
  for (const [index, part] of parts.entries()) {
    if (index === parts.length - 1) response.write(part, () => written.resolve());
    else response.write(part);
  }
  response.uncork();
  socket?.uncork();
  if (response.writableLength === 0) return true;
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('close', done);
      resolve(!response.destroyed);
    };
    response.once('close', done);
    void written.promise.then(done);
  });
}

/** Calls back whenever nothing happened for so long. */
export class IdleTimer {
  readonly #timer: NodeJS.Timeout;

  constructor(ms: number, callback: () => void) {
    this.#timer = setInterval(callback, ms);
    this.#timer.unref();
  }

  /** Something happened. */
  touch(): void {
    this.#timer.refresh();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
