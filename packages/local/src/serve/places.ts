/** Where a service keeps what it has: one directory for data that stays, one for what belongs to its present run. */
import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { baseDirectory } from '../private-directory.ts';

/** What decides where a service lies. */
export interface PlaceOptions {
  /** Effective user id. */
  readonly uid: number;
  /** The user's home directory. */
  readonly home: string;
  /** `$XDG_STATE_HOME`; default `~/.local/state`. */
  readonly stateHome?: string | undefined;
  /** `$XDG_RUNTIME_DIR`; default `/run/user/UID`. */
  readonly runtimeDirectory?: string | undefined;
  /** Used where there is no runtime directory. Default: the system's. */
  readonly temporaryDirectory?: string | undefined;
  /** The data directory, where it is not the user's own one. */
  readonly data?: string | undefined;
}

/** What is served: many sandboxes by `boxkite serve`, or one by `boxkite sidecar`. */
export type ServiceKind = 'daemon' | 'sidecar';

/** Absolute paths of one service. */
export interface ServicePlaces {
  readonly kind: ServiceKind;
  /** Whether programs of this user find it by themselves. */
  readonly usual: boolean;
  readonly data: string;
  /** Below the data directory: Node's, the runner's, the installed programs, the log of a detached daemon. */
  readonly nodeData: string;
  readonly state: string;
  readonly library: string;
  readonly log: string;
  /** Of the present run. */
  readonly runtime: string;
  /** The runner's part of it, which it removes at its end. */
  readonly runner: string;
  /** Node's part of it. */
  readonly node: string;
}

/** Absolute paths of one daemon. */
export interface DaemonPlaces extends ServicePlaces {
  /** Node's sockets and key. */
  readonly socket: string;
  readonly sidecarSocket: string;
  readonly key: string;
}

/** Both kinds have names of their own below a data directory, so that neither takes the other's for its own. */
const NAMES = {
  daemon: { data: 'boxkite', node: 'node', state: 'state', log: 'daemon.log' },
  sidecar: { data: 'boxkite-sidecar', node: 'sidecar', state: 'sidecar-state', log: 'sidecar.log' },
} as const satisfies Readonly<Record<ServiceKind, object>>;
/** Paths of the kernel's address of a Unix socket, its end included. */
const MAX_SOCKET_PATH = 107;
/** Process ids have up to 7 digits. */
const LONGEST_SOCKET = join('run-1234567', 'runner.sock');

/** The directory for data where none is named. */
function defaultData(kind: ServiceKind, options: PlaceOptions): string {
  const { data } = NAMES[kind];
  if (options.uid === 0) return join('/var/lib', data);
  const { stateHome } = options;
  const base = stateHome?.startsWith('/') === true ? stateHome : join(options.home, '.local', 'state');
  return join(base, data);
}

/** The places of the daemon with this data. A data directory has one name, whatever links lead to it. */
export function daemonPlaces(options: PlaceOptions): DaemonPlaces {
  return daemonLayout(directories('daemon', options));
}

/** As `daemonPlaces`, for a sidecar. */
export function sidecarPlaces(options: PlaceOptions): ServicePlaces {
  return layout('sidecar', directories('sidecar', options));
}

function directories(kind: ServiceKind, options: PlaceOptions): Pick<ServicePlaces, 'data' | 'runtime'> {
  const usual = canonical(defaultData(kind, options));
  const data = options.data === undefined ? usual : canonical(resolve(options.data));
  const suffix = data === usual ? '' : `-${createHash('sha256').update(data).digest('hex').slice(0, 8)}`;
  const runtime = join(baseDirectory(options), `${kind}${suffix}`);
  const longest = join(runtime, LONGEST_SOCKET);
  if (Buffer.byteLength(longest) > MAX_SOCKET_PATH) {
    throw new BoxkiteError('invalid_request', `the path ${longest} is too long for a socket`, {
      hint: 'Set XDG_RUNTIME_DIR to a shorter directory that only you can write.',
    });
  }
  return { data, runtime };
}

/** What lies where in the two directories. */
export function daemonLayout(directories: Pick<ServicePlaces, 'data' | 'runtime'>): DaemonPlaces {
  const places = layout('daemon', directories);
  const { node } = places;
  return {
    ...places,
    socket: join(node, 'boxkite.sock'),
    sidecarSocket: join(node, 'sidecar.sock'),
    key: join(node, 'key'),
  };
}

/** What lies where for either kind. */
export function layout(kind: ServiceKind, { data, runtime }: Pick<ServicePlaces, 'data' | 'runtime'>): ServicePlaces {
  const names = NAMES[kind];
  return {
    kind,
    usual: kind === 'daemon' && basename(runtime) === kind,
    data,
    nodeData: join(data, names.node),
    state: join(data, names.state),
    library: join(data, 'lib'),
    log: join(data, names.log),
    runtime,
    runner: join(runtime, 'runner'),
    node: join(runtime, 'node'),
  };
}

/** The path without links, as far as it exists. */
function canonical(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = resolve(path, '..');
    return parent === path ? path : join(canonical(parent), path.slice(parent === '/' ? 1 : parent.length + 1));
  }
}
