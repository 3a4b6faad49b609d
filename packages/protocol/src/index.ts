export type { AttachMessage } from './attach-messages.ts';
export { decodeAttachMessage, encodeAttachMessage, maxAttachMessageBytes } from './attach-messages.ts';
export { dictionary, list } from './collections.ts';
export type {
  Effective,
  EffectivePrograms,
  LayerName,
  LimitVia,
  NamespaceName,
  ProgramsVia,
  WorkspaceVia,
} from './effective.ts';
export type { ErrorBody, ErrorCode, ErrorDetails, ErrorEntry, FailureOptions } from './errors.ts';
export {
  BoxkiteError,
  BoxkiteFailure,
  BoxkiteWireError,
  errorRegistry,
  isErrorCode,
} from './errors.ts';
export { expectedSha256 } from './file-precondition.ts';
export {
  defaultOutputBytes,
  maxArgumentBytes,
  maxCount,
  maxInlineStdinBytes,
  maxLifetimeMinutes,
  maxPathBytes,
  maxTerminalSize,
  sandboxBounds,
  sandboxDefaults,
  spoolBytes,
} from './limits.ts';
export type { OutputFrame } from './output-frames.ts';
export {
  encodeOutputFrame,
  maxOutputFrameBytes,
  OutputFrameDecoder,
  outputFrameParts,
} from './output-frames.ts';
export type {
  AllowedCommand,
  AllowedCommands,
  ApiKey,
  ApiKeysPort,
  CollectedExec,
  EndReason,
  ExecEvent,
  ExecHandle,
  ExecLimits,
  ExecRecord,
  ExecRequest,
  ExecSummary,
  ExecsPort,
  ExecUsage,
  FileInfo,
  FilePrecondition,
  FilesPort,
  NewApiKey,
  OutputRange,
  OutputStream,
  PackEnd,
  SandboxCeilings,
  SandboxesPort,
  SandboxPort,
  SandboxProvider,
  SandboxSpec,
  SandboxState,
  SandboxSummary,
  SandboxUsage,
  SandboxWithUsage,
  ServerPort,
  WriteOptions,
} from './port.ts';
export { PortExecHandle } from './port-exec-handle.ts';
export { numeric } from './schema-parts.ts';
export {
  effectiveSchema,
  execLimitsSchema,
  execRecordSchema,
  execRequestSchema,
  sandboxSpecSchema,
} from './schemas.ts';
export { shellStatus } from './shell-status.ts';
export * as v1 from './v1.ts';
export { validate } from './validate.ts';
