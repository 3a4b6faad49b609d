/** What the daemon's Node finds around it: its supervisor, its runner, and listening sockets that are open already. */
import type { ProbeReport } from '@boxkite/runner-client';
import { SessionRegistry } from '@boxkite/sidecar/app';
import { DaemonSubstrate, type DaemonSubstrateParts } from './daemon-substrate.ts';
import { RunnerConnection } from './runner-connection.ts';
import { SuperviseControl } from './supervise-control.ts';

/** How a host is found. */
export interface DaemonHostParts
  extends Pick<DaemonSubstrateParts, 'instance' | 'records' | 'roots' | 'report' | 'settings' | 'objects'> {
  /** Path of the runner's socket for Node. */
  readonly runnerSocket: string;
}

/** Descriptors that `supervise` gives to Node (docs/reference/supervise-protocol.md). */
const CONTROL_DESCRIPTOR = 3;
const RUNNER_DEADLINE_MS = 10_000;

/** The sandboxes of a machine, with what they depend on. */
export class DaemonHost {
  readonly substrate: DaemonSubstrate;
  readonly registry: SessionRegistry;
  /** What the runner can enforce here. */
  readonly probe: ProbeReport;
  readonly #control: SuperviseControl;
  readonly #runner: RunnerConnection;

  private constructor(parts: {
    readonly substrate: DaemonSubstrate;
    readonly registry: SessionRegistry;
    readonly probe: ProbeReport;
    readonly control: SuperviseControl;
    readonly runner: RunnerConnection;
  }) {
    this.substrate = parts.substrate;
    this.registry = parts.registry;
    this.probe = parts.probe;
    this.#control = parts.control;
    this.#runner = parts.runner;
  }

  /** Resolves when every sandbox of an earlier Node is found again. Errors: `state_unavailable`, `runner_lost`. */
  static async open(parts: DaemonHostParts): Promise<DaemonHost> {
    const control = SuperviseControl.ofDescriptor(CONTROL_DESCRIPTOR);
    const runner = await RunnerConnection.open(parts.runnerSocket, RUNNER_DEADLINE_MS);
    const registry = new SessionRegistry();
    const [substrate, probe] = await Promise.all([
      DaemonSubstrate.open({ ...parts, runner, blobs: control, registry }),
      runner.call((client) => client.probe()),
    ]);
    return new DaemonHost({ substrate, registry, probe, control, runner });
  }

  /** Resolves with what is gone when this process can't go on: another one has to take over. */
  get lost(): Promise<'supervisor' | 'runner'> {
    return Promise.race([
      this.#control.lost.then(() => 'supervisor' as const),
      this.#runner.lost.then(() => 'runner' as const),
    ]);
  }

  /** Says that this process serves. Errors: `state_unavailable`. */
  ready(): Promise<void> {
    return this.#control.ready();
  }

  /** Lets go of all that is not destroyed; it goes on. */
  close(): Promise<void> {
    return this.substrate.close();
  }
}
