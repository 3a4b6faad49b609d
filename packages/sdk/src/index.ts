/** boxkite: runs code that an agent wrote so that it can do its work and nothing else. */

export type {
  Effective,
  EndReason,
  ErrorCode,
  ExecLimits,
  ExecRecord,
  ExecSummary,
  ExecUsage,
  FileInfo,
  SandboxPort,
  SandboxProvider,
  SandboxSpec,
  SandboxState,
  SandboxSummary,
  SandboxUsage,
  SandboxWithUsage,
  ServerPort,
  WriteOptions,
} from '@boxkite/protocol';
export {
  BoxkiteError,
  BoxkiteFailure,
  BoxkiteWireError,
} from '@boxkite/protocol';
export type { ByteSource } from './byte-source.ts';
export { collect } from './collect.ts';
export type { Command, CommandOptions } from './command.ts';
export type { WaitOptions } from './deadline.ts';
export type { DownloadOptions, DownloadReport, LocalEntry, UploadOptions } from './directories.ts';
export { CommandFailedError } from './errors.ts';
export type { AttachOptions, OutputOptions, SandboxExecs, StartOptions } from './execs.ts';
export type { FileData, ReadOptions, ReadStreamOptions, SandboxFiles } from './files.ts';
export type { FetchLike } from './http/fetch-transport.ts';
export { HttpProvider } from './http/provider.ts';
export type { Environment } from './platform.ts';
export type { SourceOptions } from './provider.ts';
export type { ExecResult } from './result.ts';
export { shellStatus } from './result.ts';
export type { ConnectOptions, ExecOptions, ListOptions, SandboxOptions, StreamOptions } from './sandbox.ts';
export { Sandbox } from './sandbox.ts';
export type { ServerOptions } from './server.ts';
export { findServer, serverProvider } from './server.ts';
export type { ExecStream, StreamEvent, StreamResult } from './stream.ts';
