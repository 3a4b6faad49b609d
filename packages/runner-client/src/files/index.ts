export type { ArchiveInOptions, ArchiveInResult, ArchiveOutEnd } from './archive.ts';
export { FileAgentDisconnectedError, FileAgentError, type FileErrorCode, fileErrorCodes } from './errors.ts';
export { FileAgentClient } from './file-agent-client.ts';
export type { PathLike } from './payload.ts';
export type { FileReading } from './reading.ts';
export type { SearchEnd, SearchOptions, SearchRecord } from './search.ts';
export { TextBytes } from './text-bytes.ts';
export type {
  CallOptions,
  FileEntry,
  FileStat,
  FileType,
  ListEnd,
  ListOptions,
  ReadOptions,
  WriteOptions,
} from './types.ts';
export type { ByteSource } from './upload.ts';
export type { TreeOptions, WalkEnd, WalkOptions } from './walk.ts';
export type { FileEvent } from './watch.ts';
