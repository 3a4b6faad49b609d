/** The programs of a service: a bundle, or a checkout from which one can be made. */
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerBinaries } from '../runner-binaries.ts';
import { findBinaries } from '../runner-binaries.ts';
import type { ServiceKind } from './places.ts';

/** What a service is started with; absolute paths. */
export interface ServicePrograms extends RunnerBinaries {
  readonly node: string;
  /** Options of Node and its script. */
  readonly script: readonly string[];
}

/** Entries in a bundle. */
const ENTRIES = { daemon: 'daemon.mjs', sidecar: 'sidecar.mjs' } as const satisfies Readonly<
  Record<ServiceKind, string>
>;
/** The same in a checkout. */
const MAINS = {
  daemon: join('packages', 'server', 'src', 'main.ts'),
  sidecar: join('packages', 'local', 'src', 'sidecar', 'main.ts'),
} as const satisfies Readonly<Record<ServiceKind, string>>;
const NODE_OPTIONS = {
  // A module of Node's that a daemon uses still calls itself experimental at each start.
  daemon: ['--disable-warning=ExperimentalWarning'],
  // One sandbox makes little garbage, and has a Node of its own: what V8 would set aside for more is only held.
  sidecar: ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=2'],
} as const satisfies Readonly<Record<ServiceKind, readonly string[]>>;

const here = dirname(fileURLToPath(import.meta.url));

/** The directory of the bundle that this code belongs to, or `null` in a checkout. */
function bundleDirectory(): string | null {
  return [here, dirname(here)].find((directory) => existsSync(join(directory, ENTRIES.daemon))) ?? null;
}

/** The programs of a bundle, and the Node to run it. */
export function bundledPrograms(kind: ServiceKind, bundle: string, node: string): ServicePrograms {
  return {
    ...findBinaries({ runner: join(bundle, 'bin', 'boxkite-runner'), agent: join(bundle, 'bin', 'boxkite-agent') }),
    node,
    script: [...NODE_OPTIONS[kind], join(bundle, ENTRIES[kind])],
  };
}

/** The programs from where they are: what a user starts is that user's. */
export function presentPrograms(kind: ServiceKind): ServicePrograms {
  const node = realpathSync(process.execPath);
  const bundle = bundleDirectory();
  if (bundle !== null) return bundledPrograms(kind, bundle, node);
  return { ...findBinaries(), node, script: [...NODE_OPTIONS[kind], join(checkout(), MAINS[kind])] };
}

/**
 * A directory with a bundle: the one that this code belongs to, or one that is made in `scratch` from the checkout, so
 * that it is never older than its sources. Errors: `runner_failed`.
 */
export async function bundleIn(scratch: string): Promise<string> {
  const present = bundleDirectory();
  if (present !== null) return present;
  const bundle = join(scratch, 'bundle');
  try {
    await promisify(execFile)(process.execPath, [join(checkout(), 'tools', 'bundle', 'main.ts'), bundle], { cwd: '/' });
  } catch (error) {
    throw new BoxkiteError('runner_failed', 'the programs could not be bundled from the sources of this checkout', {
      hint: 'Run `make bundle`, which shows why.',
      cause: error,
    });
  }
  return bundle;
}

function checkout(): string {
  const root = join(here, '..', '..', '..', '..');
  if (existsSync(join(root, MAINS.daemon))) return root;
  throw new BoxkiteError('runner_failed', 'the program of the service is not there', {
    hint: 'Install boxkite again.',
  });
}
