/** The one sandbox of a sidecar. */
import { randomUUID } from 'node:crypto';
import type { SandboxHandle } from '@boxkite/manager';
import type { Session } from '@boxkite/sidecar/app';
import type { DaemonSubstrate } from '../daemon/daemon-substrate.ts';
import type { SidecarSpec } from './config.ts';

/**
 * The sandbox that an earlier process of this run has made, or a new one. Errors: those of `Substrate.start`.
 */
export async function soleSandbox(
  substrate: DaemonSubstrate,
  spec: SidecarSpec,
): Promise<{ readonly handle: SandboxHandle; readonly session: Session }> {
  let handle: SandboxHandle | undefined;
  for (const found of await substrate.list()) {
    if (handle === undefined && found.state === 'ready') handle = found.handle;
    // That process ended while it made it, or while it ended it.
    else await substrate.destroy(found.handle);
  }
  handle ??= await substrate.start({ ...spec, id: randomUUID() });
  return { handle, session: substrate.session(handle) };
}
