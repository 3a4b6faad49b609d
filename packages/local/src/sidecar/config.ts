/** What a sidecar's Node is started with, as its launcher writes it for Node alone. */
import { chmodSync, closeSync, constants, openSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import type { SandboxSpec } from '@boxkite/protocol';
import type { SidecarSettings } from '@boxkite/sidecar/settings';

/** Limits of the one sandbox. */
export type SidecarSpec = Pick<SandboxSpec, 'memory_mb' | 'pids' | 'cpus' | 'workspace_mb' | 'inodes'>;

/** One run's. */
export interface SidecarConfig {
  /** `null`: none is configured, and nothing but `GET /health` is answered. */
  readonly token: string | null;
  readonly settings: SidecarSettings;
  readonly sandbox: SidecarSpec;
}

/** Name of the file in the directory of a run. */
export const SIDECAR_CONFIG = 'sidecar.json';

/** Reads it. Errors: of the file system, `SyntaxError`. */
export function readConfig(run: string): SidecarConfig {
  const file = openSync(join(run, SIDECAR_CONFIG), constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const config: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (!isConfig(config)) throw new SyntaxError(`${SIDECAR_CONFIG} is no configuration of a sidecar`);
    return config;
  } finally {
    closeSync(file);
  }
}

/** Written by this package alone, whole or not at all, into a directory that nobody else can write. */
function isConfig(value: unknown): value is SidecarConfig {
  return typeof value === 'object' && value !== null && 'token' in value && 'settings' in value && 'sandbox' in value;
}

/** The run ends in order, or can't begin, and its token is of no use any more. */
export function forgetConfig(run: string): void {
  const path = join(run, SIDECAR_CONFIG);
  chmodSync(path, 0o600);
  truncateSync(path);
}
