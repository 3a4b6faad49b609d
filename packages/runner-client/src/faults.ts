import { BoxkiteError, type ErrorCode, type ErrorDetails, type ExecRequest } from '@boxkite/protocol';
import type { RunnerFault } from './answers.ts';

/** ERROR codes of the runner in the registry's words. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  1: 'internal',
  2: 'unsupported',
  3: 'not_found',
  4: 'not_found',
  5: 'isolation_unavailable',
  6: 'capacity',
  7: 'invalid_request',
  8: 'start_failed',
  9: 'command_not_found',
  10: 'not_executable',
  11: 'argument_list_too_long',
  12: 'closing',
  13: 'internal',
  14: 'exec_ended',
  15: 'bad_directory',
  16: 'workspace_not_kept',
  17: 'conflict',
  18: 'conflict',
  19: 'invalid_request',
  20: 'conflict',
};

/** ERROR code of a list of programs that can't be enforced. */
const PROGRAM_REFUSED = 19;
/** Its steps, in words; a second name is that of what lacks. */
const PROGRAM_WORDS: Readonly<Record<string, string>> = {
  multi_call: 'is one file that is many programs',
  writable_root: 'lies where an agent can put another file',
  not_a_program: 'is no file that can be executed, or can not be read',
  interpreter_not_listed: 'is a script, and what runs it is not on the list',
  relative_path: 'is a path that begins in the working directory',
  too_many: 'the programs need too many files',
  library_missing: 'is linked with a file that is not there',
};

function programRefused(fault: RunnerFault): BoxkiteError {
  const [program = '', other = ''] = fault.detail.split('\0');
  const words = PROGRAM_WORDS[fault.step] ?? fault.step;
  const subject = program === '' ? words : `${JSON.stringify(program)} ${words}`;
  return new BoxkiteError('invalid_request', other === '' ? subject : `${subject}: ${other}`, {
    hint: 'The kernel can not enforce this list. Name another program, list what runs it too, or choose enforce: "text".',
    details: {
      field: 'programs',
      reason: fault.step,
      ...(program === '' ? {} : { program }),
      ...(other === '' ? {} : { [fault.step === 'library_missing' ? 'library' : 'interpreter']: other }),
    },
  });
}

const WORDS: Partial<Readonly<Record<ErrorCode, string>>> = {
  unsupported: 'the runner does not know this operation',
  isolation_unavailable: 'a layer of isolation that was asked for is not available',
  capacity: 'a limit of the runner is reached',
  invalid_request: 'the runner refused a value',
  start_failed: 'the command could not be started in its sandbox',
  command_not_found: 'the command was not found in the sandbox',
  not_executable: 'the file is not an executable program',
  argument_list_too_long: 'the arguments and the environment together are too long',
  closing: 'the sandbox is being destroyed',
  internal: 'the runner failed',
  exec_ended: 'the command has ended',
  bad_directory: 'the working directory can not be entered',
  workspace_not_kept: 'the runner does not keep this workspace',
};

/** Where several faults have one code of the registry. */
const FAULT_WORDS: Readonly<Record<number, string>> = {
  3: 'the runner does not know this sandbox',
  4: 'the runner does not know this exec',
  17: 'a workspace of this id exists already',
  18: 'the workspace is in use',
  20: 'the sandbox is in use',
};

/** Which part of `details` holds the runner's `step`. */
const STEP_NAMES: Partial<Readonly<Record<ErrorCode, string>>> = {
  isolation_unavailable: 'layer',
  capacity: 'limit',
  invalid_request: 'field',
};

/** The registry's error for an ERROR frame; step and errno stay in `details`. */
export function errorOfFault(fault: RunnerFault): BoxkiteError {
  if (fault.code === PROGRAM_REFUSED) return programRefused(fault);
  const code = CODES[fault.code] ?? 'internal';
  const details: Record<string, ErrorDetails[string]> = {};
  if (code === 'not_found') details['kind'] = fault.code === 3 ? 'sandbox' : 'exec';
  if (fault.step !== '') details[STEP_NAMES[code] ?? 'step'] = fault.step;
  if (fault.errno !== 0) details['errno'] = fault.errno;
  if (fault.detail !== '') details['detail'] = fault.detail;
  const words = FAULT_WORDS[fault.code] ?? WORDS[code];
  return new BoxkiteError(code, fault.step === '' ? `${words}` : `${words}: ${fault.step}`, { details });
}

/**
 * The same error with the caller's own words where the command or its directory is at fault: the system call that refused
 * it, which `details` keep, tells nobody which of his commands it was.
 */
export function naming(error: BoxkiteError, request: Pick<ExecRequest, 'argv' | 'cwd'>): BoxkiteError {
  const subject =
    error.code === 'bad_directory'
      ? request.cwd
      : error.code === 'command_not_found' || error.code === 'not_executable'
        ? request.argv[0]
        : undefined;
  if (subject === undefined) return error;
  return new BoxkiteError(error.code, `${WORDS[error.code]}: ${subject}`, { details: error.details });
}

/** The error of everything that was in flight when the connection ended. */
export function runnerLost(reason: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('runner_lost', `the connection to the runner has ended: ${reason}`, { cause });
}

/** The error of a call that its caller cancelled. */
export function abortedBy(signal: AbortSignal): BoxkiteError {
  return new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
}
