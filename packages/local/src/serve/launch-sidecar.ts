/** What an operator asks of a sidecar, checked, and the command line that it becomes. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { SIDECAR_CONFIG, type SidecarConfig, type SidecarSpec } from '../sidecar/config.ts';
import { openRequest, rootOf } from '../spec.ts';
import { formatAddress, isLoopback, parseAddresses, tryAddresses } from './addresses.ts';
import { sidecarPlaces } from './places.ts';
import { type Launch, prepare, refuseSecond, type ServeContext } from './prepare.ts';
import { sidecarToken } from './sidecar-token.ts';
import { readTls, type TlsContents, type TlsPair } from './tls.ts';

/** What an operator asks of a sidecar. */
export interface SidecarOptions {
  /** Addresses as the operator wrote them. Default: 127.0.0.1 with the port of `SIDECAR_PORT`, or 8080. */
  readonly listen?: readonly string[] | undefined;
  readonly tls?: TlsPair | undefined;
  /** Of `tls.crt` and `tls.key`. Default: `/etc/boxkite/tls`. */
  readonly tlsDirectory?: string | undefined;
  /** Directory of the sandbox's root file system. Default: the programs of this machine. */
  readonly rootfs?: string | undefined;
  readonly sandbox?: SidecarSpec | undefined;
}

/** Who starts a sidecar, with the variables that it is set by. */
export interface SidecarContext extends ServeContext {
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** What this process is to become, and what its operator is to know. */
export interface SidecarLaunch extends Launch {
  readonly notes: readonly string[];
}

const DEFAULT_PORT = 8080;
const TLS_DIRECTORY = '/etc/boxkite/tls';
const IDLE_SECONDS = 60;

/**
 * Checks everything, makes directories and installs programs; nothing runs yet. No variable reaches what this process
 * becomes: token and settings are in a file that Node alone reads. Errors: as of `prepareServe`.
 */
export async function prepareSidecar(options: SidecarOptions, context: SidecarContext): Promise<SidecarLaunch> {
  const { environment } = context;
  const places = sidecarPlaces(context);
  const token = sidecarToken(environment);
  const port = portOf(environment);
  const listen = parseAddresses(options.listen ?? [`127.0.0.1:${port}`], port);
  const tls = tlsOf(options, environment);
  const directory = rootOf(options);
  const sandbox = options.sandbox ?? {};
  openRequest(sandbox);
  // Loaded where a sidecar is started, not where a daemon is looked at.
  const { readSettings } = await import('@boxkite/sidecar/settings');
  const config: SidecarConfig = { token, settings: readSettings(environment), sandbox };
  refuseSecond(places, 'kill PID');
  await tryAddresses(listen);
  const plan = {
    ...{ listen, tls, roots: [{ name: 'sandbox', directory }], sockets: [] },
    // The one sandbox is made when Node asks for it, and none after it.
    ...{ maxSandboxes: 1, blanks: 0, idleSeconds: IDLE_SECONDS },
    files: { [SIDECAR_CONFIG]: JSON.stringify(config) },
  };
  const open = tls === null ? listen.find((address) => !isLoopback(address)) : undefined;
  const notes = [
    token === null &&
      'no token is set by SIDECAR_AUTH_TOKEN_FILE or SIDECAR_AUTH_TOKEN: all but GET /health answers 503',
    open !== undefined &&
      `${formatAddress(open)} can be reached from other machines, and token and files cross in clear text`,
  ].filter((note) => note !== false);
  return { ...(await prepare(plan, places, context)), notes };
}

function portOf(environment: SidecarContext['environment']): number {
  const text = environment['SIDECAR_PORT']?.trim() ?? '';
  if (text === '') return DEFAULT_PORT;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new BoxkiteError('invalid_request', 'SIDECAR_PORT is to be a whole number from 1 to 65535', {
    hint: 'Correct the variable, or leave it out for its default.',
    details: { field: 'SIDECAR_PORT' },
  });
}

/** `null`: in clear text, which was asked for in so many words. */
function tlsOf({ tls, tlsDirectory }: SidecarOptions, environment: SidecarContext['environment']): TlsContents | null {
  const word = environment['SIDECAR_TLS_DISABLED']?.trim().toLowerCase() ?? '';
  const disabled = word === 'true';
  const hint = ['', 'true', 'false'].includes(word) ? PUT_A_PAIR : ONLY_TRUE;
  if (tls !== undefined || tlsDirectory !== undefined) {
    if (!disabled) return readTls(tls ?? pairIn(tlsDirectory ?? TLS_DIRECTORY, hint));
    throw new BoxkiteError('invalid_request', 'SIDECAR_TLS_DISABLED is true, and a TLS key pair is named', {
      hint: 'Leave out one of the two.',
      details: { field: 'SIDECAR_TLS_DISABLED' },
    });
  }
  // Files that somebody left there change nothing.
  return disabled ? null : readTls(pairIn(TLS_DIRECTORY, hint));
}

const ONLY_TRUE = 'Clear text is asked for by SIDECAR_TLS_DISABLED=true; no other word means it.';
const PUT_A_PAIR =
  'Put it there, name it by --tls-dir or by --tls-cert and --tls-key, or set SIDECAR_TLS_DISABLED=true for clear text.';

/** Errors: `invalid_request` where one of the two is missing. */
function pairIn(directory: string, hint: string): TlsPair {
  const pair = { certificate: join(directory, 'tls.crt'), key: join(directory, 'tls.key') };
  const missing = Object.values(pair).filter((path) => !existsSync(path));
  if (missing.length === 0) return pair;
  throw new BoxkiteError('invalid_request', `there is no TLS key pair: ${missing.join(' and ')} can't be found`, {
    hint,
    details: { field: 'tls-dir' },
  });
}
