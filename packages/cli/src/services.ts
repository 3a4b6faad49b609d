/** What commands work with, found when a command asks for it: another set of it is what tests give. */
import type { SandboxProvider, ServerPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { CommandIo } from './io.ts';

/** Where sandboxes come from. */
export interface Services {
  /** The daemon of this machine, or the server that BOXKITE_URL names; `null` where there is neither. */
  findServer(io: CommandIo): Promise<ServerPort | null>;
  /** Sandboxes that end with this process. */
  privateProvider(io: CommandIo, onNote: (note: string) => void): Promise<SandboxProvider>;
}

/** Errors: `daemon_unreachable` where there is none. */
export async function requireServer(services: Services, io: CommandIo): Promise<ServerPort> {
  const server = await services.findServer(io);
  if (server !== null) return server;
  throw new BoxkiteError('daemon_unreachable', 'no daemon runs for this user on this machine', {
    hint: 'Start one by `boxkite serve --detach`. `boxkite run` needs none.',
  });
}
