export type { RunnerAccess } from './access.ts';
export { COMMAND_ENVIRONMENT, TERMINAL_TYPE } from './environment.ts';
export { type CommitMode, RunnerExecution } from './execution.ts';
export {
  type ArchiveInOptions,
  type ArchiveInResult,
  type ArchiveOutEnd,
  type ByteSource,
  type CallOptions,
  FileAgentClient,
  FileAgentDisconnectedError,
  FileAgentError,
  type FileEntry,
  type FileErrorCode,
  type FileEvent,
  type FileReading,
  type FileStat,
  type FileType,
  fileErrorCodes,
  type ListEnd,
  type ListOptions,
  type PathLike,
  type ReadOptions,
  type SearchEnd,
  type SearchOptions,
  type SearchRecord,
  TextBytes,
  type TreeOptions,
  type WalkEnd,
  type WalkOptions,
  type WriteOptions,
} from './files/index.ts';
export { fileChanged, writeExpecting } from './files-port/expected-file.ts';
export { RunnerFiles } from './files-port/runner-files.ts';
export { hold, letGo, own, ReadMemory, type ReadSizes } from './read-memory.ts';
export { RunnerClient } from './runner-client.ts';
export type {
  CloseOptions,
  FileView,
  ListedExec,
  ListedSandbox,
  ListedUsage,
  ListingOptions,
  OpenedSandbox,
  OpenRequest,
  OpenWorkspace,
  ProbeEntry,
  ProbeReport,
  ProgramPolicy,
  ProgramsSet,
  RunnerClientOptions,
  RunnerExecRequest,
  RunnerListing,
  SandboxId,
  WorkspaceId,
} from './types.ts';
