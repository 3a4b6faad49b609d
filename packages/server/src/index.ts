export type { Daemon, DaemonParts } from './daemon.ts';
export { startDaemon } from './daemon.ts';
export { createServer } from './server.ts';
export type { MachineLimits } from './services/sandbox-spec.ts';
