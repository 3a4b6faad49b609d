/** TCP addresses that a service listens at. */
import { createServer, isIP, isIPv6 } from 'node:net';
import { BoxkiteError } from '@boxkite/protocol';

/** A TCP address. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

const MAX_PORT = 65_535;
/** The supervisor has 16 listeners, two of which are Unix sockets of a daemon. */
const MOST_ADDRESSES = 14;

/** Reads `ADDR`, `ADDR:PORT`, `[ADDR]:PORT`, or `localhost` in place of an address. Errors: `invalid_request`. */
export function parseAddress(text: string, defaultPort: number): Address {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const named = isIPv6(text) ? text : (bracketed ?? plain);
  const host = named === 'localhost' ? '127.0.0.1' : named;
  const number = isIPv6(text) || port === undefined ? defaultPort : Number(port);
  if (host !== undefined && isIP(host) !== 0 && number >= 1 && number <= MAX_PORT) return { host, port: number };
  throw new BoxkiteError('invalid_request', `--listen ${text} is not ADDR:PORT`, {
    hint: `Give an IP address and a port, for example --listen 127.0.0.1:${defaultPort} or --listen [::1]:${defaultPort}.`,
    details: { field: 'listen' },
  });
}

/** Addresses as an operator wrote them, each once. Errors: `invalid_request`. */
export function parseAddresses(given: readonly string[], defaultPort: number): readonly Address[] {
  const listen = given.map((text) => parseAddress(text, defaultPort));
  if (listen.length <= MOST_ADDRESSES && new Set(listen.map(formatAddress)).size === listen.length) return listen;
  throw new BoxkiteError('invalid_request', `--listen takes at most ${MOST_ADDRESSES} addresses, each once`, {
    hint: 'Listen at 0.0.0.0 or [::] for all addresses of this machine.',
    details: { field: 'listen' },
  });
}

/** The address as a user writes it. */
export function formatAddress({ host, port }: Address): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine reaches it. */
export function isLoopback({ host }: Address): boolean {
  if (!isIPv6(host)) return host.startsWith('127.');
  // Any way to write ::1.
  return new URL(`http://[${host}]/`).hostname === '[::1]';
}

/** Keys and output would cross a network in plain text. Errors: `invalid_request`. */
export function refusePlainText(addresses: readonly Address[]): void {
  const open = addresses.find((address) => !isLoopback(address));
  if (open === undefined) return;
  throw new BoxkiteError('invalid_request', `${formatAddress(open)} can be reached from other machines, without TLS`, {
    hint: 'Give --tls-cert FILE and --tls-key FILE, or listen at 127.0.0.1 and put a TLS proxy before it.',
    details: { field: 'listen' },
  });
}

/** Finds out in time what can't be listened at. Errors: `address_in_use`, `invalid_request`. */
export async function tryAddresses(addresses: readonly Address[]): Promise<void> {
  for (const address of addresses) {
    const server = createServer();
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen({ host: address.host, port: address.port, exclusive: true }, resolve);
      });
    } catch (error) {
      throw refusal(address, error);
    } finally {
      await new Promise<void>((resolve) => server.close(() => resolve()));
    }
  }
}

function refusal(address: Address, error: unknown): BoxkiteError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'an unknown error';
  const shown = formatAddress(address);
  if (code === 'EADDRINUSE') {
    return new BoxkiteError('address_in_use', `${shown} is in use by another program`, {
      details: { address: shown },
      cause: error,
    });
  }
  const words: Readonly<Record<string, string>> = {
    EADDRNOTAVAIL: 'this machine has no such address',
    EACCES: 'only root may listen at this port',
    EAFNOSUPPORT: 'this machine does not speak this kind of address',
  };
  return new BoxkiteError('invalid_request', `${shown} can't be listened at: ${words[code] ?? code}`, {
    hint: 'Choose another address or port.',
    details: { field: 'listen' },
    cause: error,
  });
}
