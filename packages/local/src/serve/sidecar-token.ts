/** The token of a sidecar, from where its operator put it. */
import { readFileSync, statSync } from 'node:fs';
import { BoxkiteError } from '@boxkite/protocol';

/** In the manifests that people copy: as good as none. */
const PLACEHOLDER = 'CHANGEME-generate-a-random-per-pod-secret-see-comment-above';
const MOST_BYTES = 4096;
/** What every client can send as a header. */
const SENDABLE = /^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/;

/**
 * `SIDECAR_AUTH_TOKEN_FILE` before `SIDECAR_AUTH_TOKEN`, without blanks around it; `null` where it is unset, blank or the
 * placeholder. Errors: `invalid_request`, which never shows it.
 */
export function sidecarToken(environment: Readonly<Record<string, string | undefined>>): string | null {
  const path = environment['SIDECAR_AUTH_TOKEN_FILE']?.trim() ?? '';
  const name = path === '' ? 'SIDECAR_AUTH_TOKEN' : 'SIDECAR_AUTH_TOKEN_FILE';
  const token = (path === '' ? (environment[name] ?? '') : readToken(path)).trim();
  if (token === '' || token === PLACEHOLDER) return null;
  if (token.length <= MOST_BYTES && SENDABLE.test(token)) return token;
  throw new BoxkiteError('invalid_request', `${name} holds what can't be sent as a token`, {
    hint: `Use up to ${MOST_BYTES} printable ASCII characters, for example the output of \`openssl rand -base64 32\`.`,
    details: { field: name },
  });
}

function readToken(path: string): string {
  try {
    const found = statSync(path);
    if (!found.isFile()) throw new TypeError('it is no file');
    if (found.size > 2 * MOST_BYTES) throw new TypeError('it is too long');
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
    const why = code ?? (error instanceof TypeError ? error.message : 'an unknown error');
    throw new BoxkiteError('invalid_request', `SIDECAR_AUTH_TOKEN_FILE: ${path} can't be read (${why})`, {
      hint: 'Give the path of a file that holds the token alone.',
      details: { field: 'SIDECAR_AUTH_TOKEN_FILE' },
      cause: error,
    });
  }
}
