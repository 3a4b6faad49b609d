export type { Effective, LayerName, LimitVia, NamespaceName } from './effective.ts';
export type { ErrorBody, ErrorCode, ErrorDetails, ErrorEntry, FailureOptions } from './errors.ts';
export {
  BoxkiteError,
  BoxkiteFailure,
  BoxkiteWireError,
  errorRegistry,
  isErrorCode,
} from './errors.ts';
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
