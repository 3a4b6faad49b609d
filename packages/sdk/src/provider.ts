/** Where sandboxes come from when the caller gives no provider. */
import type { SandboxesPort, SandboxProvider, ServerPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { unlessAborted } from './deadline.ts';
import type { ServerOptions } from './server.ts';
import { findServer, loadPlatform } from './server.ts';

/** Where a call finds its sandboxes. */
export interface SourceOptions extends Pick<ServerOptions, 'url' | 'apiKey' | 'ca' | 'fetch'> {
  /** In place of everything else here. */
  readonly provider?: SandboxProvider | undefined;
  /**
   * `false`: a private sandbox of this process, whatever daemon there is. Default: the server of `url` or `BOXKITE_URL`,
   * else this user's daemon on this machine, else a private one.
   */
  readonly daemon?: boolean | undefined;
}

async function privateProvider(): Promise<SandboxProvider> {
  const platform = await loadPlatform();
  if (platform.name !== 'linux') {
    throw new BoxkiteError('unsupported_platform', `boxkite runs sandboxes on Linux, and this is ${platform.name}`, {
      hint: 'Name a server by `url` or BOXKITE_URL, or use a Linux virtual machine (Lima, WSL 2, Docker Desktop).',
    });
  }
  // An import of the package's own map: a bundle for a browser gets `no-local.ts` by its condition.
  const { createLocalProvider } = await import('#local');
  return createLocalProvider({ allowedCommands: platform.environment().allowedCommands });
}

/** Makes each provider once, also for concurrent callers; a failed attempt is not kept. */
export class Providers {
  readonly #found = new Map<string, Promise<SandboxProvider>>();
  readonly #private = (): Promise<SandboxProvider> => this.#once('private', privateProvider);

  /**
   * An abort ends the wait of this caller, and not what others wait for. Errors: `aborted`, `invalid_request`,
   * `daemon_unreachable`, `unsupported_platform`.
   */
  get(options: SourceOptions, signal?: AbortSignal): Promise<SandboxProvider> {
    return unlessAborted(this.#find(options), signal);
  }

  #find(options: SourceOptions): Promise<SandboxProvider> {
    const { provider, daemon, url, apiKey, ca, fetch } = options;
    if (provider !== undefined) return Promise.resolve(provider);
    if (daemon === false) {
      if (url === undefined) return this.#private();
      throw new BoxkiteError('invalid_request', 'url names a server, and daemon: false asks for none', {
        details: { field: 'daemon' },
      });
    }
    const find = async (): Promise<SandboxProvider> => {
      const server = await findServer({ url, apiKey, ca, fetch });
      if (server !== null) return server;
      if (daemon !== true) return this.#private();
      throw new BoxkiteError('daemon_unreachable', 'no daemon runs for this user on this machine', {
        hint: 'Start one by `boxkite serve --detach`, or name a server by `url` or BOXKITE_URL.',
      });
    };
    // One with a client of its own belongs to its caller.
    if (fetch !== undefined) return find();
    return this.#once(JSON.stringify([url, apiKey, ca, daemon === true]), find);
  }

  #once(key: string, make: () => Promise<SandboxProvider>): Promise<SandboxProvider> {
    const found = this.#found.get(key);
    if (found !== undefined) return found;
    const making = make();
    this.#found.set(key, making);
    making.catch(() => this.#found.delete(key));
    return making;
  }
}

/** Whether a provider is a server, which measures and has keys. */
export function isServer(provider: SandboxProvider): provider is ServerPort {
  return 'usage' in provider;
}

/** What only sandboxes that outlive their process have. Errors: `unsupported`. */
export function lasting(provider: SandboxProvider): SandboxesPort {
  if (provider.sandboxes !== null) return provider.sandboxes;
  throw needsDaemon('this');
}

/** Errors of what a private sandbox can't do. */
export function needsDaemon(what: string): BoxkiteError {
  return new BoxkiteError('unsupported', `${what} needs a daemon, and this sandbox ends with its process`, {
    hint: 'Start the daemon by `boxkite serve`; sandboxes then come from it by themselves.',
  });
}
