/** The TLS pair of a service: checked by its launcher, and handed on to its Node by copies in the directory of the run. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { BoxkiteError } from '@boxkite/protocol';

/** Paths of a certificate chain and its private key, in PEM. */
export interface TlsPair {
  readonly certificate: string;
  readonly key: string;
}

/** Names of the copies. */
const COPIES = { certificate: 'tls.crt', key: 'tls.key' } as const;

function read(path: string, field: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'an unknown error';
    throw new BoxkiteError('invalid_request', `--${field}: ${path} can't be read (${code})`, {
      hint: 'Give the path of a file in PEM.',
      details: { field },
      cause: error,
    });
  }
}

/** The contents of a pair that belongs together. */
export interface TlsContents {
  readonly certificate: Buffer;
  readonly key: Buffer;
}

/** Reads the pair. Errors: `invalid_request` for one that no TLS server could use. */
export function readTls(pair: TlsPair): TlsContents {
  const certificate = read(pair.certificate, 'tls-cert');
  const key = read(pair.key, 'tls-key');
  try {
    const matches = new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
    if (!matches) throw new Error('they do not belong together');
    createSecureContext({ cert: certificate, key });
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'an unknown error';
    throw new BoxkiteError('invalid_request', `certificate and key can't be used: ${detail}`, {
      hint: 'Give a certificate and its private key in PEM, the key without a passphrase.',
      details: { field: 'tls-cert' },
      cause: error,
    });
  }
  return { certificate, key };
}

/** The copies of a pair: contents by name. */
export function tlsCopies({ certificate, key }: TlsContents): Readonly<Record<string, Buffer>> {
  return { [COPIES.certificate]: certificate, [COPIES.key]: key };
}

/** What a listener of a run takes, from the copies; `undefined` for one in clear text. */
export function listenerTls(record: {
  readonly tls: boolean;
  readonly run: string;
}): { readonly cert: Buffer; readonly key: Buffer } | undefined {
  if (!record.tls) return undefined;
  const copy = (name: string): Buffer => readFileSync(join(record.run, name));
  return { cert: copy(COPIES.certificate), key: copy(COPIES.key) };
}
