/** What the daemon's Node holds sandboxes by. */
export { createSidecar, daemonSettings } from '@boxkite/sidecar/app';
export { findBinaries } from '../runner-binaries.ts';
export { DaemonHost } from './daemon-host.ts';
export type { DaemonSubstrateParts } from './daemon-substrate.ts';
export { DaemonSubstrate } from './daemon-substrate.ts';
export { RunnerConnection } from './runner-connection.ts';
export type { BlobStore } from './supervise-control.ts';
export { SuperviseControl } from './supervise-control.ts';
