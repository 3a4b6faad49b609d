/** Reads where a server is, and the key for it. */
import { BoxkiteError } from '@boxkite/protocol';
import type { Endpoint } from './transport.ts';

/** Errors: `invalid_request`, whose message never shows what was given, since it may hold a password. */
export function parseEndpoint(text: string, field = 'url'): Endpoint {
  const socketPath = /^unix:(?:\/\/)?(\/(?!\/).+)$/s.exec(text)?.[1];
  if (socketPath !== undefined) {
    if (socketPath.includes('\0')) throw refused(field, 'has a NUL byte');
    return { url: `unix://${socketPath}`, socketPath, prefix: '' };
  }
  if (!URL.canParse(text)) throw refused(field, 'is no URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw refused(field, 'is to begin with http, https or unix');
  if (url.username !== '' || url.password !== '') throw refused(field, 'is to hold no user or password');
  if (url.search !== '' || url.hash !== '') throw refused(field, 'is to end with its path');
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw refused(field, 'would send the key and all data through a network as they are', 'Use https, or a tunnel.');
  const prefix = url.pathname.replace(/\/+$/, '');
  return { url: url.origin + prefix, socketPath: null, prefix };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host) || host.endsWith('.localhost');
}

function refused(field: string, what: string, hint?: string): BoxkiteError {
  return new BoxkiteError('invalid_request', `${field} ${what}`, {
    hint: hint ?? 'Give http://127.0.0.1:8090, https://host or unix:///path/to/boxkite.sock.',
    details: { field },
  });
}

/** Headers and subprotocols that carry a key. Errors: `invalid_request`, which never shows it. */
export function credentials(apiKey: string | undefined): {
  readonly headers: Readonly<Record<string, string>>;
  readonly protocols: readonly string[];
} {
  if (apiKey === undefined) return { headers: {}, protocols: [] };
  if (!/^[\x21-\x7e]{1,512}$/.test(apiKey)) {
    throw new BoxkiteError('invalid_request', 'the API key has characters that no key has', {
      hint: 'Correct BOXKITE_API_KEY, or the option apiKey.',
      details: { field: 'apiKey' },
    });
  }
  return { headers: { authorization: `Bearer ${apiKey}` }, protocols: [`bearer.${apiKey}`] };
}
