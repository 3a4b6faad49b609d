/** Servers: given by options, named by the environment, or the daemon of this machine. */
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import { credentials, parseEndpoint } from './http/endpoint.ts';
import type { FetchLike } from './http/fetch-transport.ts';
import { LazyTransport } from './http/lazy-transport.ts';
import { LocalKeyTransport } from './http/local-key-transport.ts';
import type { HttpProviderParts } from './http/provider.ts';
import { HttpProvider } from './http/provider.ts';
import type { Environment, Platform } from './platform.ts';

/** Which server, and how it is reached. */
export interface ServerOptions {
  /** `http://127.0.0.1:8090`, `https://host` or `unix:///path/to/boxkite.sock`. Default: `BOXKITE_URL`. */
  readonly url?: string | undefined;
  /** Default: `BOXKITE_API_KEY`; for a Unix socket the key beside it. */
  readonly apiKey?: string | undefined;
  /** Certificates in PEM that are trusted instead of the system's. Node only, and not with a `fetch`. */
  readonly ca?: string | undefined;
  /** Sends requests in place of the platform's own client; WebSockets are the platform's. */
  readonly fetch?: FetchLike | undefined;
  /** Told what `copy` left out, one sentence each. Default: nobody is. */
  readonly onNote?: ((note: string) => void) | undefined;
  /** In place of this program's environment. */
  readonly environment?: Environment | undefined;
}

/** What a platform is found by; the package's own map chooses its file. */
export async function loadPlatform(): Promise<Platform> {
  const { platform } = await import('#platform');
  return platform;
}

/**
 * A server of a given URL; nothing is sent before the first call. Errors: `invalid_request` for a URL or key that can't be
 * used; of its calls: `daemon_unreachable`, `connection_lost`, and what the server answers.
 */
export function serverProvider(options: ServerOptions & { readonly url: string }): HttpProvider {
  return providerAt(options, 'url');
}

/** `field` is what errors call the URL. */
function providerAt(options: ServerOptions & { readonly url: string }, field: string): HttpProvider {
  const endpoint = parseEndpoint(options.url, field);
  // Refused here already, where its caller can see it.
  credentials(options.apiKey);
  const make = async () => {
    const platform = await loadPlatform();
    const open = (apiKey: string | undefined) => platform.openTransport(endpoint, { ...options, apiKey });
    const { socketPath } = endpoint;
    if (socketPath === null || options.apiKey !== undefined) return open(options.apiKey);
    return LocalKeyTransport.open({ key: () => platform.keyBeside(socketPath), open });
  };
  return new HttpProvider({ transport: new LazyTransport(make), url: endpoint.url, copy: copying(options.onNote) });
}

function copying(onNote: ServerOptions['onNote']): HttpProviderParts['copy'] {
  return {
    check: async (directory) => {
      const { checkSource } = await import('#directories');
      checkSource(directory, 'copy');
    },
    copyIn: async (sandbox, directory, signal) => {
      const { uploadDirectory } = await import('#directories');
      await uploadDirectory(sandbox, directory, '/workspace', { onNote, signal, field: 'copy' });
    },
  };
}

/**
 * The server that the options or the environment name, else the daemon of this user on this machine; `null` where there
 * is none. One that is named is not tried: its first call fails where it can't be reached. Errors: `invalid_request`;
 * `daemon_unreachable` for a daemon of this machine that takes connections and does not answer.
 */
export async function findServer(options: ServerOptions = {}): Promise<HttpProvider | null> {
  const platform = await loadPlatform();
  const environment = options.environment ?? platform.environment();
  const named = options.url ?? environment.url;
  const apiKey = options.apiKey ?? environment.apiKey;
  if (named !== undefined) {
    return providerAt({ ...options, url: named, apiKey }, options.url === undefined ? 'BOXKITE_URL' : 'url');
  }
  const socket = platform.daemonSocket(environment);
  if (socket === null) return null;
  const provider = serverProvider({ ...options, apiKey, url: `unix://${socket}` });
  return (await answers(provider)) ? provider : null;
}

/** ms that a daemon may take: one that starts again answers within a second. */
const ANSWER_MS = 15_000;

/** Whether a daemon is behind a socket; nothing listens at that of one that has ended. */
async function answers(provider: HttpProvider): Promise<boolean> {
  const signal = AbortSignal.timeout(ANSWER_MS);
  try {
    await provider.health(signal);
    return true;
  } catch (error) {
    if (error instanceof BoxkiteFailure && error.code === 'daemon_unreachable') return false;
    throw new BoxkiteError('daemon_unreachable', `the daemon at ${provider.url} does not answer`, {
      hint: 'Look at `boxkite status`; `daemon: false` makes a sandbox without it.',
      cause: error,
    });
  }
}
