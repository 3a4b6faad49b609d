/** What `boxkite serve`, `status` and `stop` are made of. */
export type { DaemonRecord, RunningDaemon } from './daemon-record.ts';
export { CLIENT_SOCKET, findDaemon, lockHolder, RECORD_NAME, readRecord, runDirectory } from './daemon-record.ts';
export { startDetached } from './detach.ts';
export { ensureDataDirectory } from './directories.ts';
export type { ServeOptions } from './launch-daemon.ts';
export { ALLOWED_COMMANDS, checkServe, prepareServe } from './launch-daemon.ts';
export { prepareSidecar, type SidecarOptions } from './launch-sidecar.ts';
export type { DaemonPlaces, PlaceOptions, ServicePlaces } from './places.ts';
export { daemonLayout, daemonPlaces, sidecarPlaces } from './places.ts';
export type { Launch, NamedRoot, ServeContext } from './prepare.ts';
export type { DaemonStatus } from './status.ts';
export { daemonStatus } from './status.ts';
export type { StopReport } from './stop.ts';
export { stopDaemon } from './stop.ts';
export type { TlsPair } from './tls.ts';
export { listenerTls } from './tls.ts';
