/** What an operator asks of a daemon, checked, and the command line that it becomes. */
import { BoxkiteError, type SandboxCeilings } from '@boxkite/protocol';
import { checkCeilings, existingDirectory } from '../spec.ts';
import { type Address, parseAddresses, refusePlainText, tryAddresses } from './addresses.ts';
import { type DaemonPlaces, daemonPlaces } from './places.ts';
import { HOST_ROOT, type Launch, type NamedRoot, prepare, refuseSecond, type ServeContext } from './prepare.ts';
import { readTls, type TlsContents, type TlsPair } from './tls.ts';

/** What an operator asks of a daemon. */
export interface ServeOptions {
  /** Addresses as the operator wrote them. Default: none but the Unix socket. */
  readonly listen?: readonly string[] | undefined;
  readonly tls?: TlsPair | undefined;
  /** Beside the host's, which is always there. */
  readonly roots?: readonly NamedRoot[] | undefined;
  /** Sandboxes at once. Default 2,000. */
  readonly maxSandboxes?: number | undefined;
  /** Sandboxes to make ahead. Default 4. */
  readonly blanks?: number | undefined;
  /** Seconds after which what is idle of a sandbox ends. Default 60. */
  readonly idleSeconds?: number | undefined;
  /** Of each sandbox. Default: what the machine has. */
  readonly ceilings?: SandboxCeilings | undefined;
  /** The command allowlist that every command of every sandbox needs. Default: none. */
  readonly allowedCommands?: AllowedCommandsText | undefined;
}

/** JSON, and what messages call it: a file, or a variable. */
export interface AllowedCommandsText {
  readonly text: string;
  readonly name: string;
}

/** Name of the file in the directory of a run that holds the list, or `null`. */
export const ALLOWED_COMMANDS = 'allowed-commands.json';

const DEFAULTS = { maxSandboxes: 2000, blanks: 4, idleSeconds: 60 } as const;
const DEFAULT_PORT = 8090;
/** The supervisor keeps 8,192 blobs: one for each, as notes are kept for a sidecar's clients alone. */
const MOST_SANDBOXES = 8000;
const MOST_BLANKS = 64;
const MOST_IDLE_SECONDS = 86_400;
const ROOT_NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;

/** What an operator asks for, checked. */
export interface DaemonPlan {
  readonly listen: readonly Address[];
  readonly tls: TlsContents | null;
  readonly roots: readonly NamedRoot[];
  readonly maxSandboxes: number;
  readonly blanks: number;
  readonly idleSeconds: number;
  readonly ceilings: SandboxCeilings;
  /** JSON of a list, or of `null`. */
  readonly allowedCommands: string;
}

/**
 * Checks everything, makes directories and installs programs; nothing runs yet. Errors: `already_running`,
 * `address_in_use`, `invalid_request`, `data_unusable`, `runner_failed`.
 */
export async function prepareServe(options: ServeOptions, context: ServeContext): Promise<Launch> {
  const places = daemonPlaces(context);
  const plan = await checkServe(options, places);
  const files = { [ALLOWED_COMMANDS]: plan.allowedCommands };
  const sockets = [places.socket, places.sidecarSocket];
  return prepare({ ...plan, roots: [HOST_ROOT, ...plan.roots], sockets, files }, places, context);
}

/** What can be said without changing anything. Errors: as of `prepareServe`. */
export async function checkServe(options: ServeOptions, places: DaemonPlaces): Promise<DaemonPlan> {
  const listen = parseAddresses(options.listen ?? [], DEFAULT_PORT);
  if (options.tls === undefined) refusePlainText(listen);
  else if (listen.length === 0) {
    throw new BoxkiteError('invalid_request', 'a TLS pair is of no use without an address to listen at', {
      hint: 'Give --listen ADDR:PORT too, or leave the pair out.',
      details: { field: 'listen' },
    });
  }
  const plan = {
    allowedCommands: await allowedCommands(options.allowedCommands),
    listen,
    tls: options.tls === undefined ? null : readTls(options.tls),
    roots: namedRoots(options.roots ?? []),
    maxSandboxes: count('max-sandboxes', options.maxSandboxes ?? DEFAULTS.maxSandboxes, 1, MOST_SANDBOXES),
    blanks: count('blanks', options.blanks ?? DEFAULTS.blanks, 0, MOST_BLANKS),
    ceilings: checkCeilings(options.ceilings ?? {}),
    idleSeconds: count('idle-seconds', options.idleSeconds ?? DEFAULTS.idleSeconds, 1, MOST_IDLE_SECONDS),
  };
  refuseSecond(places, `boxkite stop${places.usual ? '' : ` --data ${places.data}`}`);
  await tryAddresses(listen);
  return plan;
}

/** Errors: `invalid_request`, which names file, line and key. */
async function allowedCommands(given: AllowedCommandsText | undefined): Promise<string> {
  if (given === undefined) return 'null';
  // Loaded where there is a list.
  const { deploymentList } = await import('@boxkite/sidecar/settings');
  return deploymentList(given.text, given.name) ?? 'null';
}

function count(field: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new BoxkiteError('invalid_request', `--${field} is to be a whole number from ${least} to ${most}`, {
    hint: `Correct --${field}.`,
    details: { field },
  });
}

function namedRoots(given: readonly NamedRoot[]): readonly NamedRoot[] {
  const names = new Set<string>([HOST_ROOT.name]);
  return given.map(({ name, directory }) => {
    if (!ROOT_NAME.test(name)) {
      throw new BoxkiteError('invalid_request', `--rootfs ${name}=${directory}: ${name} is no name for a root`, {
        hint: 'Use lower-case letters, digits, `.`, `_` and `-`, for example --rootfs debian=/srv/debian.',
        details: { field: 'rootfs' },
      });
    }
    if (names.has(name)) {
      throw new BoxkiteError('invalid_request', `--rootfs: the name ${name} is taken`, {
        hint: `Choose another name; ${HOST_ROOT.name} is this machine's own root file system.`,
        details: { field: 'rootfs' },
      });
    }
    names.add(name);
    const real = existingDirectory(directory, 'rootfs');
    if (real !== '/') return { name, directory: real };
    throw new BoxkiteError('invalid_request', 'rootfs: / would show all files of this machine to the sandbox', {
      hint: `Leave it out: sandboxes use the programs of this machine, by the name ${HOST_ROOT.name}.`,
      details: { field: 'rootfs' },
    });
  });
}
