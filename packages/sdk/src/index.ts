/** boxkite: runs code that an agent wrote so that it can do its work and nothing else. */

export type {
  Effective,
  EndReason,
  ErrorCode,
  ExecLimits,
  ExecRecord,
  ExecUsage,
  FileInfo,
  SandboxPort,
  SandboxProvider,
  SandboxSpec,
  WriteOptions,
} from '@boxkite/protocol';
export {
  BoxkiteError,
  BoxkiteFailure,
  BoxkiteWireError,
} from '@boxkite/protocol';
export { collect } from './collect.ts';
export type { Command, CommandOptions } from './command.ts';
export type { WaitOptions } from './deadline.ts';
export { CommandFailedError } from './errors.ts';
export type { FileData, ReadOptions, ReadStreamOptions, SandboxFiles } from './files.ts';
export type { ExecResult } from './result.ts';
export { shellStatus } from './result.ts';
export type { ExecOptions, SandboxOptions, StreamOptions } from './sandbox.ts';
export { Sandbox } from './sandbox.ts';
export type { ExecStream, StreamEvent, StreamResult } from './stream.ts';
