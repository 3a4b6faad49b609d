/** What the real program works with. Both clients are loaded at their first use: each costs start-up time. */
import type { ServerPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { daemonSocket } from 'boxkite/discovery';
import { deploymentText } from './allowed-commands.ts';
import type { CommandIo } from './io.ts';
import type { Services } from './services.ts';

/** ms that a server may take to answer at all. */
const ANSWER_MS = 15_000;

/** The daemon of this machine, and private runners. */
export const realServices: Services = {
  findServer,
  privateProvider: async (io, onNote) => {
    const { createLocalProvider } = await import('@boxkite/local');
    // One sandbox with one command: more would be made for nobody.
    return createLocalProvider({
      runtimeDirectory: io.env['XDG_RUNTIME_DIR'],
      allowedCommands: deploymentText(io),
      blanks: 1,
      onNote,
    });
  },
};

async function findServer(io: CommandIo): Promise<ServerPort | null> {
  const url = io.env['BOXKITE_URL'] || undefined;
  const apiKey = io.env['BOXKITE_API_KEY'] || undefined;
  const environment = { url, apiKey, runtimeDirectory: io.env['XDG_RUNTIME_DIR'] };
  // The client is not even loaded where nothing is there to talk to.
  if (url === undefined && daemonSocket(environment) === null) return null;
  const sdk = await import('./remote.ts');
  const onNote = (note: string): boolean => io.stderr().write(`boxkite: ${note}\n`);
  const server = await sdk.findServer({ environment, onNote });
  if (server !== null && url !== undefined) await mustAnswer(server);
  return server;
}

/** A server that takes connections and says nothing would let every command wait for ever. */
async function mustAnswer(server: { readonly url: string; health(signal: AbortSignal): Promise<void> }): Promise<void> {
  const signal = AbortSignal.timeout(ANSWER_MS);
  try {
    await server.health(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new BoxkiteError('daemon_unreachable', `the server at ${server.url} does not answer`, { cause: error });
  }
}
