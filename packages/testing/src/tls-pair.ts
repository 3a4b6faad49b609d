/** Key pairs of TLS for tests, each its own authority. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of a certificate and its key, both PEM. */
export interface TlsPair {
  readonly certificate: string;
  readonly key: string;
}

/**
 * Makes `tls.crt` and `tls.key`, which only its owner can read, in a directory that is made if it is missing; valid for
 * a day, for `name`: `DNS:...` or `IP:...`. Needs openssl.
 */
export function makeTlsPair(directory: string, name = 'DNS:pod'): TlsPair {
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const [certificate, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'];
  const subject = ['-subj', `/CN=${name.replace(/^\w+:/, '')}`, '-addext', `subjectAltName=${name}`];
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  });
  chmodSync(key, 0o600);
  return { certificate, key };
}
