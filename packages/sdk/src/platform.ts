/** What the SDK needs of the platform that it runs on: one implementation for Node, one for everything else. */
import type { FetchLike } from './http/fetch-transport.ts';
import type { Endpoint, Transport } from './http/transport.ts';

/** What the SDK takes from the environment. */
export interface Environment {
  /** `BOXKITE_URL`. */
  readonly url?: string | undefined;
  /** `BOXKITE_API_KEY`. */
  readonly apiKey?: string | undefined;
  /** `XDG_RUNTIME_DIR`. */
  readonly runtimeDirectory?: string | undefined;
  /** `SANDBOX_ALLOWED_COMMANDS`: what commands of private sandboxes need. */
  readonly allowedCommands?: string | undefined;
}

/** How a server is reached. */
export interface TransportOptions {
  readonly apiKey: string | undefined;
  readonly ca?: string | undefined;
  readonly fetch?: FetchLike | undefined;
}

/** One platform. */
export interface Platform {
  /** As `process.platform` has it. */
  readonly name: string;
  environment(): Environment;
  openTransport(endpoint: Endpoint, options: TransportOptions): Promise<Transport>;
  /** Path of the socket of this user's daemon, where there is one that is the user's own. */
  daemonSocket(environment: Environment): string | null;
  /** The local administrator's key beside a socket; `undefined` where there is none that can be read. */
  keyBeside(socketPath: string): string | undefined;
}
