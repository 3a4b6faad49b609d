import type { FastifyBaseLogger } from 'fastify';
import { fastify } from 'fastify';
import { hidden } from './hidden.ts';

/** Where lines go. */
export interface LogDestination {
  write(line: string): void;
}

/**
 * Fastify's own logger, one line of JSON each, for what has no app yet. `null`: silent. `hide` takes what must not be shown
 * out of every text.
 */
export function createLogger(destination: LogDestination | null, hide: (text: string) => string): FastifyBaseLogger {
  const logger = destination === null ? false : { level: 'info', stream: new HidingDestination(destination, hide) };
  return fastify({ logger }).log;
}

class HidingDestination implements LogDestination {
  readonly #destination: LogDestination;
  readonly #hide: (text: string) => string;

  constructor(destination: LogDestination, hide: (text: string) => string) {
    this.#destination = destination;
    this.#hide = hide;
  }

  write(line: string): void {
    this.#destination.write(this.#hide(line) === line ? line : this.#hidden(line));
  }

  /** Each text is looked at by itself, so that the line stays JSON; then the line, for what only the name of a field tells. */
  #hidden(line: string): string {
    return this.#hide(`${JSON.stringify(hidden(JSON.parse(line), this.#hide))}\n`);
  }
}
