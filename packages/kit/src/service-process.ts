/** What a process that serves does beside serving: signals, exit status, and what it says of its own failure. */
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyBaseLogger } from 'fastify';

/** Exit status that says: configuration or data is unusable, a restart would not help (EX_CONFIG). */
export const unusableStatus = 78;
const FAILED = 1;

/** Codes with which a restart of the same process would end again. */
const UNUSABLE: ReadonlySet<string> = new Set(['data_unusable', 'invalid_request', 'isolation_unavailable']);

/** The exit status of a process that could not start. */
export function exitStatusOf(error: unknown): number {
  return error instanceof BoxkiteError && UNUSABLE.has(error.code) ? unusableStatus : FAILED;
}

/** What serves. */
export interface Service {
  /** Resolves when everything is written and closed. */
  close(): Promise<void>;
}

/**
 * Starts a service, closes it at SIGTERM or SIGINT, and exits: 0 after an orderly end, 78 where data or configuration are
 * unusable, else 1, after which it is started again. Reads neither arguments nor environment.
 */
export async function runService(start: () => Promise<Service>, logger: FastifyBaseLogger): Promise<void> {
  const asked = new Promise<void>((resolve) => {
    process.once('SIGTERM', () => resolve());
    process.once('SIGINT', () => resolve());
  });
  process.on('uncaughtException', (error) => die(error, logger));
  process.on('unhandledRejection', (error) => die(error, logger));
  try {
    const service = await start().catch(explained);
    await asked;
    await service.close();
    process.exit(0);
  } catch (error) {
    die(error, logger);
  }
}

/** What nobody expected ends the process: its successor takes over what runs. */
export function die(error: unknown, logger: FastifyBaseLogger): never {
  const what = error instanceof Error ? error.message : 'this process failed';
  const status = exitStatusOf(error);
  // What its operator has asked for or given is no fault in a program, which a stack would lead to.
  if (error instanceof BoxkiteError && status === unusableStatus) logger.fatal(error.toJSON(), what);
  else logger.fatal(error, what);
  process.exit(status);
}

/** For people, beside the line for programs. */
function explained(error: unknown): never {
  if (error instanceof BoxkiteError)
    process.stderr.write(`boxkite: ${error.message} (${error.code})\nhint: ${error.hint}\n`);
  throw error;
}
