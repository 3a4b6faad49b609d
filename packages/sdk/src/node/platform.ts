/** Node: its own HTTP client, the environment, and the daemon of this machine. */
import { BoxkiteError } from '@boxkite/protocol';
import { credentials } from '../http/endpoint.ts';
import { FetchTransport } from '../http/fetch-transport.ts';
import type { Platform } from '../platform.ts';
import { daemonSocket, keyBeside } from './daemon-socket.ts';
import { environment } from './environment.ts';

/** See `Platform`. */
export const platform: Platform = {
  name: process.platform,
  environment,
  openTransport: async (endpoint, options) => {
    const { headers, protocols } = credentials(options.apiKey);
    if (options.fetch === undefined) {
      // Loaded for a server alone: a program with private runners starts without it.
      const { NodeTransport } = await import('./http-transport.ts');
      return new NodeTransport(endpoint, { headers, ca: options.ca });
    }
    if (endpoint.socketPath !== null) {
      throw new BoxkiteError('invalid_request', 'a fetch of your own can not be told of a Unix socket', {
        details: { field: 'fetch' },
      });
    }
    if (options.ca !== undefined) {
      throw new BoxkiteError('invalid_request', 'a fetch of your own trusts what it trusts, whatever `ca` says', {
        hint: 'Give the certificates to that fetch, and leave out `ca`.',
        details: { field: 'ca' },
      });
    }
    return new FetchTransport(endpoint, { headers, protocols, fetch: options.fetch });
  },
  daemonSocket,
  keyBeside,
};
