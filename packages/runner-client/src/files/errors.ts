/** Error codes of the file agent by their number on the wire. */
export const fileErrorCodes = {
  1: 'invalid',
  2: 'not_found',
  3: 'exists',
  4: 'not_a_file',
  5: 'is_directory',
  6: 'not_a_directory',
  7: 'read_only',
  8: 'no_space',
  9: 'permission',
  10: 'too_large',
  11: 'cancelled',
  12: 'limit',
  13: 'io',
  14: 'not_empty',
  15: 'busy',
  16: 'loop',
  17: 'name_too_long',
  18: 'cross_device',
  19: 'unsupported',
  20: 'protocol',
  21: 'refused',
  22: 'pattern',
  23: 'changed',
} as const;

/** Why a call failed at the file agent. */
export type FileErrorCode = (typeof fileErrorCodes)[keyof typeof fileErrorCodes];

const byNumber: ReadonlyMap<number, FileErrorCode> = new Map(
  Object.entries(fileErrorCodes).map(([number, code]) => [Number(number), code]),
);

/** The file agent answered that a call failed. `errno` is the kernel's number, 0 when no system call failed. */
export class FileAgentError extends Error {
  override readonly name = 'FileAgentError';
  readonly code: FileErrorCode;
  readonly errno: number;

  constructor(code: FileErrorCode, errno: number, message: string) {
    super(message);
    this.code = code;
    this.errno = errno;
  }
}

/** The connection to the file agent has ended, or what came over it was no answer; calls in flight may or may not have happened. */
export class FileAgentDisconnectedError extends Error {
  override readonly name = 'FileAgentDisconnectedError';
}

/** The code of a number on the wire; a number this client does not know is an `io` error. */
export function fileErrorCode(number: number): FileErrorCode {
  return byNumber.get(number) ?? 'io';
}
