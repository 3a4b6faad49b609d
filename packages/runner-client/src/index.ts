export { fixedEnvironment } from './exec-fields.ts';
export { RunnerExecution } from './execution.ts';
export { RunnerClient } from './runner-client.ts';
export type {
  FileView,
  ListedExec,
  ListedSandbox,
  OpenedSandbox,
  OpenRequest,
  ProbeEntry,
  ProbeReport,
  RunnerClientOptions,
  RunnerListing,
  SandboxId,
} from './types.ts';
