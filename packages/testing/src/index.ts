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
} from './host-resources.ts';
export type { HostTargets } from './host-targets.ts';
export { startTargets } from './host-targets.ts';
export type { Lane } from './lane.ts';
export { lane, PROBE_MODE } from './lane.ts';
export type { PasswdEntry } from './passwd.ts';
export { passwdEntry } from './passwd.ts';
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
export { commitPayload, execPayload, frame, frames, HEADER, openPayload, TYPE, u64 } from './raw-frames.ts';
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
export type { Staying } from './staying.ts';
export { startStaying } from './staying.ts';
