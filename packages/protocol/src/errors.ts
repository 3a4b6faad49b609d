/** What the registry says about one error code. */
export interface ErrorEntry {
  /** HTTP status of an answer with this code. User-level failures are never 502 to 504. */
  readonly status: number;
  /** Whether the same call may work later without a change by the caller, and nothing of the failed one is left. */
  readonly retryable: boolean;
  /** What to do next. */
  readonly hint: string;
}

/** Every error code of boxkite: one table for all packages; `docs/reference/errors.md` lists the same codes. */
export const errorRegistry = {
  invalid_request: {
    status: 422,
    retryable: false,
    hint: 'Correct the field that is named and send the request again.',
  },
  unauthorized: { status: 401, retryable: false, hint: 'Send a valid API key or token.' },
  not_found: {
    status: 404,
    retryable: false,
    hint: 'Check the id; it may have been destroyed or its record collected.',
  },
  unsupported: { status: 501, retryable: false, hint: 'Use versions of boxkite and its runner that belong together.' },
  unsupported_platform: {
    status: 501,
    retryable: false,
    hint: 'Run boxkite on Linux, in a Linux virtual machine, or use a boxkite server elsewhere.',
  },
  isolation_unavailable: {
    status: 503,
    retryable: false,
    hint: 'Run `boxkite doctor --machine` to see what is missing and its remedy, or do not ask for this control.',
  },
  capacity: {
    status: 429,
    retryable: true,
    hint: 'Wait until other sandboxes or commands have ended, or raise the limit that `details.limit` names.',
  },
  closing: { status: 409, retryable: false, hint: 'Create a new sandbox; this one is being destroyed.' },
  command_not_found: {
    status: 422,
    retryable: false,
    hint: 'Check the name, or give the full path; the program must be inside the sandbox and in its PATH, and so must be the interpreter that its first line names.',
  },
  not_executable: { status: 422, retryable: false, hint: 'Make the file executable, or run it by its interpreter.' },
  command_not_allowed: {
    status: 403,
    retryable: false,
    hint: 'Use the programs that the reason names, each written out; only the operator of the sandbox changes its list.',
  },
  argument_list_too_long: {
    status: 413,
    retryable: false,
    hint: 'Pass the data by standard input or by a file instead of arguments and environment.',
  },
  bad_directory: {
    status: 422,
    retryable: false,
    hint: 'Give a `cwd` that exists inside the sandbox and that its user can enter.',
  },
  exec_ended: { status: 409, retryable: false, hint: 'The command has ended; start a new one.' },
  stdin_closed: {
    status: 409,
    retryable: false,
    hint: 'Start the command with an open input (`stdin_open` by HTTP, `stdin: "stream"` in the SDK) and write before closing; the command itself may also have closed its input.',
  },
  aborted: { status: 499, retryable: false, hint: 'The call was cancelled by its caller; nothing of it is running.' },
  timeout: { status: 408, retryable: false, hint: 'Raise the time limit or make the work smaller.' },
  runner_lost: {
    status: 500,
    retryable: false,
    hint: 'The runner has ended and with it every sandbox it held; create a new sandbox.',
  },
  runner_failed: {
    status: 500,
    retryable: false,
    hint: 'Run `boxkite doctor --machine`; `details.step` names what failed.',
  },
  start_failed: {
    status: 500,
    retryable: false,
    hint: 'Run `boxkite doctor --machine`; `details.step` names what failed inside the sandbox.',
  },
  file_not_found: { status: 404, retryable: false, hint: 'List the parent directory to see what exists.' },
  file_exists: { status: 409, retryable: false, hint: 'Choose another name or remove the existing file first.' },
  is_directory: { status: 409, retryable: false, hint: 'Give the path of a file, or use the call for directories.' },
  not_a_file: {
    status: 409,
    retryable: false,
    hint: 'Only regular files can be read and written; devices, sockets and pipes are refused.',
  },
  not_a_directory: {
    status: 409,
    retryable: false,
    hint: 'A part of the path is a file; give the path of a directory.',
  },
  directory_not_empty: {
    status: 409,
    retryable: false,
    hint: 'Remove the contents of the directory first, or choose another target.',
  },
  read_only: { status: 403, retryable: false, hint: 'Write below /workspace, /mnt/user-data/outputs or /tmp.' },
  no_space: {
    status: 507,
    retryable: false,
    hint: 'Remove files, or create the sandbox with a larger `workspace_mb` or `inodes`.',
  },
  permission_denied: {
    status: 403,
    retryable: false,
    hint: 'Change the mode of the file from inside the sandbox, or choose another path.',
  },
  outside_roots: {
    status: 403,
    retryable: false,
    hint: 'Use a path below /workspace, /mnt/user-data, /mnt/skills or /tmp.',
  },
  name_too_long: { status: 422, retryable: false, hint: 'Use shorter names: 255 bytes a part, 4,095 bytes a path.' },
  too_many_links: {
    status: 422,
    retryable: false,
    hint: 'The path passes through a loop of symbolic links; give the real path.',
  },
  file_busy: {
    status: 409,
    retryable: true,
    hint: 'The file is in use; try again when the command that uses it has ended.',
  },
  file_too_large: { status: 413, retryable: false, hint: 'Read or write the file in parts, or use an archive.' },
  file_over_limit: {
    status: 422,
    retryable: false,
    hint: 'Read or edit it by a command, such as sed or head, or get it whole by `/files/content`.',
  },
  not_text: {
    status: 422,
    retryable: false,
    hint: 'Look at it by a command, such as file or xxd, or get its bytes by `/files/content`.',
  },
  file_changed: {
    status: 412,
    retryable: false,
    hint: 'Somebody else has written it since; read it again and decide anew.',
  },
  cross_device: {
    status: 409,
    retryable: false,
    hint: 'The two paths are on different file systems; copy the file, then remove the original.',
  },
  archive_refused: {
    status: 422,
    retryable: false,
    hint: 'The archive has an entry or a size that is not allowed; `details` names it. Nothing was unpacked.',
  },
  io_error: {
    status: 500,
    retryable: false,
    hint: 'Reading or writing failed below the file system; check the disk of the machine.',
  },
  internal: { status: 500, retryable: false, hint: 'This is a fault in boxkite; please report it with `details`.' },
  workspace_not_kept: {
    status: 409,
    retryable: false,
    hint: 'Only a `disk` workspace outlives its runner; create a sandbox with `workspace: "disk"` to keep files.',
  },
  conflict: { status: 409, retryable: false, hint: 'Look at the present state and decide again.' },
  generation_gone: { status: 409, retryable: false, hint: 'Send the present generation, or none for the next one.' },
  sandbox_not_ready: {
    status: 409,
    retryable: false,
    hint: 'Start one that is stopped by `boxkite start ID` or `Sandbox.start(id)`, wait for one that is being created, create another for one that failed.',
  },
  payload_too_large: { status: 413, retryable: false, hint: 'Send less at once; files go by `/files/content`.' },
  range_not_satisfiable: { status: 416, retryable: false, hint: 'Ask for a range that begins within the file.' },
  admin_required: { status: 403, retryable: false, hint: 'Use the key of an administrator.' },
  session_budget_exceeded: {
    status: 403,
    retryable: false,
    hint: 'Nothing more can be run in this session; configure the sandbox anew, or have its budget raised.',
  },
  not_configured: { status: 503, retryable: false, hint: 'Configure a token before the first call.' },
  state_unavailable: {
    status: 503,
    retryable: true,
    hint: 'The daemon is starting or its disk is full; look at its log and try again.',
  },
  address_in_use: { status: 409, retryable: false, hint: 'Stop what listens there, or choose another address.' },
  already_running: { status: 409, retryable: false, hint: 'Use the daemon that runs, or stop it by `boxkite stop`.' },
  data_unusable: {
    status: 500,
    retryable: false,
    hint: 'Correct what the message names, or choose another data directory by `boxkite serve --data DIR`.',
  },
  daemon_unreachable: {
    status: 500,
    retryable: true,
    hint: 'Start it by `boxkite serve`, or correct BOXKITE_URL.',
  },
  unexpected_answer: {
    status: 500,
    retryable: false,
    hint: 'Check that BOXKITE_URL names a boxkite server of this version, and that no proxy changes its answers.',
  },
  connection_lost: {
    status: 500,
    retryable: false,
    hint: 'The connection ended before the answer; look at what was done before you call again.',
  },
  missing_credentials: {
    status: 401,
    retryable: false,
    hint: 'Send `Authorization: Bearer KEY`; on this machine `boxkite` finds the key of the daemon by itself.',
  },
  invalid_api_key: {
    status: 401,
    retryable: false,
    hint: 'Use a key that exists and is not revoked; `boxkite keys` makes one.',
  },
  method_not_allowed: {
    status: 405,
    retryable: false,
    hint: 'Use one of the methods that the header Allow names.',
  },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    hint: 'Send the body as JSON with `Content-Type: application/json`.',
  },
  upgrade_required: {
    status: 426,
    retryable: false,
    hint: 'Open a WebSocket of version 13 with the subprotocol `boxkite.v1`.',
  },
  bad_request: { status: 400, retryable: false, hint: 'Send well-formed HTTP/1.1 with a body of valid JSON.' },
  headers_too_large: { status: 431, retryable: false, hint: 'Send fewer or shorter headers, or a shorter URL.' },
  request_timeout: {
    status: 408,
    retryable: true,
    hint: 'The request did not arrive in time and was not carried out; send it again.',
  },
  idempotency_key_in_progress: {
    status: 409,
    retryable: true,
    hint: 'The first call with this Idempotency-Key is still running; send the same again later.',
  },
  idempotency_key_reuse: {
    status: 422,
    retryable: false,
    hint: 'Use a new Idempotency-Key for a request with another body.',
  },
  concurrent_sandbox_limit_reached: {
    status: 429,
    retryable: true,
    hint: 'Destroy a sandbox of this account, or have its limit raised by `boxkite serve`.',
  },
  global_capacity_reached: {
    status: 429,
    retryable: true,
    hint: 'Try again when other sandboxes have ended, or have the limit raised by `boxkite serve`.',
  },
  gpu_support_disabled: { status: 422, retryable: false, hint: 'Leave `gpu_count` out; no sandbox has a GPU here.' },
  secret_not_found: {
    status: 404,
    retryable: false,
    hint: 'No secrets are stored here; give values to a command by `secret_env`.',
  },
  storage_unavailable: {
    status: 500,
    retryable: true,
    hint: 'The object store can not be reached or used; look at its state, then try again.',
  },
  storage_full: {
    status: 507,
    retryable: false,
    hint: 'Free room where the object store keeps its objects, then flush again.',
  },
  storage_damaged: {
    status: 409,
    retryable: false,
    hint: 'What the object store has under this prefix is not what was stored there; restore it from a copy, or use another `storage_prefix`.',
  },
  object_changed: {
    status: 409,
    retryable: true,
    hint: 'Somebody else has put the object meanwhile; look at it and decide again.',
  },
  object_mismatch: {
    status: 409,
    retryable: true,
    hint: 'The bytes changed while they were stored; try again when nothing writes to them.',
  },
  mcp_connection_not_found: {
    status: 404,
    retryable: false,
    hint: 'No connections are stored here; leave `mcp_connection_names` out.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

/** A code of the registry. */
export type ErrorCode = keyof typeof errorRegistry;

/** Plain JSON, as `details` carries it. */
export type ErrorDetails = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** The one shape of every answer that is not a success. */
export interface ErrorBody {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly hint: string;
    readonly retryable: boolean;
    readonly details: ErrorDetails;
  };
}

/** What a failure may carry beside code and message. */
export interface FailureOptions {
  readonly details?: ErrorDetails | undefined;
  /** Replaces the registry's hint where the place of the failure knows better. */
  readonly hint?: string | undefined;
  /** The error below; never serialized. */
  readonly cause?: unknown;
}

/** What every failure of boxkite is: a code to act on, a hint for people. Nobody matches on the message. */
export abstract class BoxkiteFailure extends Error {
  abstract readonly code: string;
  abstract readonly hint: string;
  abstract readonly retryable: boolean;
  readonly details: ErrorDetails;

  protected constructor(message: string, options: FailureOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.details = options.details ?? {};
  }

  /** The wire's shape, without the cause. */
  toJSON(): ErrorBody {
    return {
      error: {
        code: this.code,
        message: this.message,
        hint: this.hint,
        retryable: this.retryable,
        details: this.details,
      },
    };
  }
}

/** A failure that happened here, in this process or in what it holds. */
export class BoxkiteError extends BoxkiteFailure {
  override readonly name = 'BoxkiteError';
  override readonly code: ErrorCode;
  override readonly hint: string;
  override readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options: FailureOptions = {}) {
    super(message, options);
    this.code = code;
    this.hint = options.hint ?? errorRegistry[code].hint;
    this.retryable = errorRegistry[code].retryable;
  }
}

/** A failure that a server answered. Its code may be newer than this registry, so it is any string. */
export class BoxkiteWireError extends BoxkiteFailure {
  override readonly name = 'BoxkiteWireError';
  override readonly code: string;
  override readonly hint: string;
  override readonly retryable: boolean;
  /** HTTP status of the answer. */
  readonly status: number;

  constructor(status: number, body: ErrorBody, cause?: unknown) {
    super(body.error.message, { details: body.error.details, cause });
    this.status = status;
    this.code = body.error.code;
    this.hint = body.error.hint;
    this.retryable = body.error.retryable;
  }
}

/** Whether a string is a code of this registry. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorRegistry, code);
}
