export { CuttingProxy } from './cutting-proxy.ts';
export type { Answer, CallOptions, CommandOutcome, TestDaemonOptions } from './daemon.ts';
export { boxkite, launchDaemon, placesOf, startDaemon, TestDaemon } from './daemon.ts';
export { takeDescriptors } from './descriptors.ts';
export type { Resources } from './host-resources.ts';
export {
  groupsOf,
  growth,
  hostNamespace,
  idLockDirectories,
  leftovers,
  processes,
  processesOf,
  resourcesOf,
  unlessGone,
} from './host-resources.ts';
export type { HostTargets } from './host-targets.ts';
export { startTargets } from './host-targets.ts';
export { type Colour, makeBomb, makePng, pngChunk, pngHeader } from './images.ts';
export type { Lane } from './lane.ts';
export { lane, ownMachine, PROBE_MODE } from './lane.ts';
export type { PasswdEntry } from './passwd.ts';
export { passwdEntry } from './passwd.ts';
export { slowness, within } from './patience.ts';
export type { Executor, Outcome, ProgramOptions } from './program.ts';
export {
  collect,
  compileInside,
  eventually,
  insideSource,
  install,
  python,
  pythonJson,
  run,
  sh,
  sleep,
} from './program.ts';
export type { RawFrame } from './raw-frames.ts';
export {
  closePayload,
  commitPayload,
  execPayload,
  frame,
  frames,
  HEADER,
  openPayload,
  programsPayload,
  TYPE,
  u64,
} from './raw-frames.ts';
export type { Place, TestRunnerOptions, TestSandbox, TestSpec } from './runner.ts';
export {
  connectTo,
  makePlace,
  nativeProgram,
  RUNNER_PATH,
  runnerArguments,
  startRunner,
  TestRunner,
} from './runner.ts';
export { boxkiteCommand, makeDataDirectory, removeDaemon, TestService } from './service.ts';
export type { SidecarCall, TestSidecarOptions } from './sidecar.ts';
export { freePort, launchSidecar, startSidecar, TestSidecar } from './sidecar.ts';
export type { Staying } from './staying.ts';
export { startStaying } from './staying.ts';
export type { TlsPair } from './tls-pair.ts';
export { makeTlsPair } from './tls-pair.ts';
