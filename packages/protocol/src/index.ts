export type { Effective, LayerName, LimitVia, NamespaceName } from './effective.ts';
export type { ErrorBody, ErrorCode, ErrorDetails, ErrorEntry, FailureOptions } from './errors.ts';
export {
  BoxkiteError,
  BoxkiteFailure,
  BoxkiteWireError,
  errorRegistry,
  isErrorCode,
} from './errors.ts';
export {
  defaultOutputBytes,
  maxArgumentBytes,
  maxCount,
  maxInlineStdinBytes,
  maxPathBytes,
  maxTerminalSize,
  sandboxDefaults,
  spoolBytes,
} from './limits.ts';
export type {
  EndReason,
  ExecEvent,
  ExecHandle,
  ExecLimits,
  ExecRecord,
  ExecRequest,
  ExecUsage,
  FileInfo,
  FilesPort,
  OutputStream,
  SandboxPort,
  SandboxProvider,
  SandboxSpec,
  WriteOptions,
} from './port.ts';
export {
  effectiveSchema,
  execLimitsSchema,
  execRecordSchema,
  execRequestSchema,
  sandboxSpecSchema,
} from './schemas.ts';
export { validate } from './validate.ts';
