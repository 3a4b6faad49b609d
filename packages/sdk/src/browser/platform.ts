/** Anything but Node: `fetch` and `WebSocket`, no socket of this machine, no environment. */
import { BoxkiteError } from '@boxkite/protocol';
import { credentials } from '../http/endpoint.ts';
import type { FetchLike } from '../http/fetch-transport.ts';
import { FetchTransport } from '../http/fetch-transport.ts';
import type { Platform } from '../platform.ts';

/** See `Platform`. */
export const platform: Platform = {
  name: 'a browser',
  environment: () => ({}),
  openTransport: async (endpoint, options) => {
    if (endpoint.socketPath !== null)
      throw new BoxkiteError('unsupported_platform', 'a Unix socket can be reached by Node alone', {
        hint: 'Give a URL that begins with https.',
      });
    if (options.ca !== undefined)
      throw new BoxkiteError('unsupported_platform', '`ca` can be used by Node alone', {
        hint: 'Have the browser or system trust the certificate, and leave out `ca`.',
        details: { field: 'ca' },
      });
    const own: FetchLike = (url, init) => globalThis.fetch(url, init);
    return new FetchTransport(endpoint, { ...credentials(options.apiKey), fetch: options.fetch ?? own });
  },
  daemonSocket: () => null,
  keyBeside: () => undefined,
};
