export { COMMAND_ENVIRONMENT } from '@boxkite/runner-client';
export { measureTree, packTree } from './copy-in.ts';
export type { DoctorLine, DoctorReport } from './doctor.ts';
export { examineMachine, formatReport } from './doctor.ts';
export type { LocalOptions } from './private-sandboxes.ts';
export { assertLinux, createLocalProvider } from './provider.ts';
export type { RunnerBinaries } from './runner-binaries.ts';
