export type { DoctorLine, DoctorReport } from './doctor.ts';
export { examineMachine, formatReport } from './doctor.ts';
export { COMMAND_ENVIRONMENT } from './environment.ts';
export { assertLinux, createLocalProvider } from './provider.ts';
export type { RunnerBinaries } from './runner-binaries.ts';
export type { LocalOptions } from './substrate.ts';
export { LocalSubstrate } from './substrate.ts';
