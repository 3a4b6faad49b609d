/**
 * The port between the SDK and whatever holds the sandboxes: a private runner in this process, or a daemon over HTTP.
 * Types only. Field names are the wire's, so that records pass through unchanged.
 */
import type { Effective } from './effective.ts';

/** Why an exec ended. Exactly one per exec. */
export type EndReason = 'exited' | 'signaled' | 'timed_out' | 'out_of_memory' | 'killed' | 'lost';

/** Limits of one exec. Absent means the sandbox's own. */
export interface ExecLimits {
  /** MiB; binds the command and the tmpfs pages that it writes. */
  readonly memory_mb?: number | undefined;
  /** Number of processes and threads. */
  readonly pids?: number | undefined;
  /** Total CPU time of all processes of the exec, in ms. */
  readonly cpu_ms?: number | undefined;
  /** Bytes that the record keeps per stream; never ends a command. */
  readonly output_bytes?: number | undefined;
}

/** A command to be run in a sandbox. */
export interface ExecRequest {
  /** Program and arguments; a program without a slash is looked for in PATH. */
  readonly argv: readonly string[];
  /** Default `/workspace`. */
  readonly cwd?: string | undefined;
  /** Added to the fixed environment. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** `undefined`: `/dev/null`; bytes: written and closed; `'stream'`: by `ExecHandle.write` and `closeStdin`. */
  readonly stdin?: Uint8Array | 'stream' | undefined;
  /** A terminal of this size instead of pipes; its output is `stdout`. */
  readonly tty?: { readonly columns: number; readonly rows: number } | undefined;
  /** ms; the whole envelope is dead when the exec is reported `timed_out`. */
  readonly timeout_ms?: number | undefined;
  readonly limits?: ExecLimits | undefined;
  /** `drop` (default): volume never stops a command whose reader is away; `block`: lossless back-pressure. */
  readonly overflow?: 'drop' | 'block' | undefined;
  /** A new envelope for this command alone. */
  readonly fresh?: boolean | undefined;
  /** Added to the environment like `env`; each value is replaced by a placeholder with its name wherever output shows it. */
  readonly secret_env?: Readonly<Record<string, string>> | undefined;
}

/** What an exec used. */
export interface ExecUsage {
  /** ms of CPU of all processes of the exec; `null` where it can't be measured. */
  readonly cpu_ms: number | null;
  /** Peak bytes charged; `null` where the kernel can't say it for one exec. */
  readonly memory_peak_bytes: number | null;
}

/** The record of an ended exec. */
export interface ExecRecord {
  readonly exec_id: string;
  readonly end: EndReason;
  /** `null` unless `end` is `exited`. */
  readonly exit_code: number | null;
  /** Name such as `SIGKILL` where a signal ended the command, else `null`. */
  readonly signal: string | null;
  /** `cpu_limit`, `requested`, `sandbox_closed`, `init_died`; `null` where `end` says it all. */
  readonly reason: string | null;
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
  readonly duration_ms: number;
  readonly usage: ExecUsage;
  readonly effective: Effective;
}

/** A stream of output. */
export type OutputStream = 'stdout' | 'stderr';

/** What a started exec yields. */
export type ExecEvent =
  | { readonly type: 'output'; readonly stream: OutputStream; readonly offset: number; readonly data: Uint8Array }
  /** Bytes `from`..`to` of the stream were dropped. */
  | { readonly type: 'gap'; readonly stream: OutputStream; readonly from: number; readonly to: number }
  | { readonly type: 'ended'; readonly record: ExecRecord };

/** A started exec. Iterating yields its events once, in order, `ended` last; not iterating stops the command by back-pressure. */
export interface ExecHandle extends AsyncIterable<ExecEvent> {
  readonly exec_id: string;
  readonly effective: Effective;
  /** Resolves when the bytes are handed on (back-pressure); rejects `exec_ended` after the end. */
  write(data: Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  /** Signal name or number to the command's process group. */
  signal(signal: string | number): Promise<void>;
  /** Kills the whole envelope; resolves when nothing of it is alive. */
  kill(): Promise<void>;
  resize(columns: number, rows: number): Promise<void>;
}

/** An exec as lists and status calls show it: of a running one what is known by now. */
export interface ExecSummary {
  readonly exec_id: string;
  readonly state: 'starting' | 'running' | 'ended';
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly tty: boolean;
  /** ISO 8601, UTC. */
  readonly started_at: string;
  /** `null` while it runs. */
  readonly ended_at: string | null;
  /** Bytes of the record's log so far, after redaction: where the next byte will be. */
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
  /** `null` while it runs. */
  readonly record: ExecRecord | null;
}

/** Which part of a record's output is read. */
export interface OutputRange {
  /** Offsets of the log of each stream. Default 0. */
  readonly stdout?: number | undefined;
  readonly stderr?: number | undefined;
  /** One stream alone. Default both. */
  readonly only?: OutputStream | undefined;
  /** Go on until the exec has ended. Default true; `false` ends with what is there by now, without `ended` unless it has ended. */
  readonly follow?: boolean | undefined;
  /** The data of an event may be memory that is used again once the next event is asked for. Default: it may be kept. */
  readonly lent?: boolean | undefined;
}

/** Output of a whole exec, as far as its log keeps it. */
export interface CollectedExec {
  readonly record: ExecRecord;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** Bytes between the first and the last ones were dropped. */
  readonly stdout_truncated: boolean;
  readonly stderr_truncated: boolean;
}

/**
 * Execs of one sandbox that outlive whoever started them, and their records. Every call finds its exec by id,
 * so that another client, or the same one after a cut, goes on where it was. Errors: `not_found` for an unknown id.
 */
export interface ExecsPort {
  /** Starts a command that ends by itself, by a signal, by its time limit or with its sandbox. */
  start(request: ExecRequest): Promise<ExecSummary>;
  /** Runs a command to its end. Aborting kills it. Keeps `limits.output_bytes` of each stream, half from either end. */
  run(request: ExecRequest, signal?: AbortSignal): Promise<CollectedExec>;
  /** In the order of their start. */
  list(signal?: AbortSignal): Promise<readonly ExecSummary[]>;
  get(execId: string, signal?: AbortSignal): Promise<ExecSummary>;
  /** Output from the given offsets on, then `ended`. A part that is dropped is a `gap`. Leaving the loop changes nothing for the exec. */
  output(execId: string, range?: OutputRange, signal?: AbortSignal): AsyncIterable<ExecEvent>;
  /** Resolves when the bytes are handed on. Errors: `exec_ended`, `stdin_closed`. */
  write(execId: string, data: Uint8Array): Promise<void>;
  closeStdin(execId: string): Promise<void>;
  signal(execId: string, signal: string | number): Promise<void>;
  /** Kills the whole envelope; resolves when nothing of it is alive. */
  kill(execId: string): Promise<void>;
  resize(execId: string, columns: number, rows: number): Promise<void>;
  /** One connection for output from the given offsets on and for input, where that is less than a call for each. Leaving the loop changes nothing for the exec. */
  attach?(execId: string, range?: OutputRange, signal?: AbortSignal): Promise<ExecHandle>;
}

/** A file as `stat` and `list` describe it. */
export interface FileInfo {
  readonly name: string;
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  readonly modified_ms: number;
  readonly target?: string | undefined;
}

/** What has to be at a path for a write: nothing, or a file whose content has this SHA-256, in hexadecimal. */
export type FilePrecondition = 'nothing' | { readonly sha256: string };

/** How a file is written. */
export interface WriteOptions {
  readonly mode?: number | undefined;
  /** Make missing parents. Default true. */
  readonly parents?: boolean | undefined;
  /**
   * Anything else than this at the path stays as it is, and the write is refused: with `file_changed`, or as every write where no
   * file can be (`is_directory`, `not_a_file`, `not_a_directory`). Whoever read a file writes only over what it has read. Up to
   * 64 MiB are compared, a larger file is refused with `file_too_large`. Default: whatever is there is replaced.
   */
  readonly expected?: FilePrecondition | undefined;
}

/** Files of the five roots, by the file agent. Relative paths start at `/workspace`. Aborting cancels the call; a cancelled write leaves nothing. */
export interface FilesPort {
  /** What is at a path; a link is described, unless `follow` asks for what it leads to. */
  stat(path: string, signal?: AbortSignal, options?: { readonly follow?: boolean | undefined }): Promise<FileInfo>;
  read(
    path: string,
    range?: { readonly offset?: number; readonly length?: number },
    signal?: AbortSignal,
  ): AsyncIterable<Uint8Array>;
  write(
    path: string,
    data: Uint8Array | AsyncIterable<Uint8Array>,
    options?: WriteOptions,
    signal?: AbortSignal,
  ): Promise<void>;
  list(path: string, signal?: AbortSignal): AsyncIterable<FileInfo>;
  mkdir(path: string, signal?: AbortSignal): Promise<void>;
  remove(path: string, signal?: AbortSignal): Promise<void>;
  move(from: string, to: string, signal?: AbortSignal): Promise<void>;
  /** Unpacks a tar stream into a directory; a refused one leaves nothing. */
  unpack(path: string, tar: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<void>;
  /** A tar stream of a tree. `onEnd` is told at its end what it lacks, where the way to the sandbox tells that. */
  pack(path: string, signal?: AbortSignal, onEnd?: (end: PackEnd) => void): AsyncIterable<Uint8Array>;
}

/** What the archive of a tree lacks. */
export interface PackEnd {
  /** Files and directories that can't be read, and pipes, sockets and devices: they are left out. */
  readonly omitted: number;
  /** Files that became shorter while they were read: the rest of each is zeros. */
  readonly cut: number;
}

/** One sandbox, as its user holds it. */
export interface SandboxPort {
  readonly id: string;
  readonly effective: Effective;
  /** Aborting before the start refuses it; after it, kills the exec. */
  exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
  readonly files: FilesPort;
  /** `null` where the sandbox ends with its creator, so that nobody could come back to an exec. */
  readonly execs: ExecsPort | null;
  /** Resolves when nothing of the sandbox is left; idempotent. */
  destroy(): Promise<void>;
}

/** A rule of a command allowlist: the name of a program, or a program with patterns for its arguments. */
export type AllowedCommand =
  | string
  | {
      readonly command: string;
      /** At least one must match the whole argument text. */
      readonly args_allow?: readonly string[];
      /** None may be found anywhere in the argument text. */
      readonly args_deny?: readonly string[];
    };

/** A command allowlist; rules alone mean `enforce: "kernel"`. */
export type AllowedCommands =
  | readonly AllowedCommand[]
  | { readonly commands: readonly AllowedCommand[]; readonly enforce?: 'kernel' | 'text' };

/** What a new sandbox is to be. */
export interface SandboxSpec {
  /** A directory that holds the root file system; default: the host's. A daemon takes the name of a root that its operator gave. */
  readonly rootfs?: string | undefined;
  /** A directory of the caller that is copied into `/workspace`. */
  readonly copy?: string | undefined;
  /** MiB of memory of one command; asked for explicitly it is enforced or refused. Default 1,024 where it can be enforced. */
  readonly memory_mb?: number | undefined;
  /** Default 256. */
  readonly pids?: number | undefined;
  /** CPU rate in cores; asked for explicitly it is enforced or refused. */
  readonly cpus?: number | undefined;
  /** MiB of the five roots together. Default 1,024. */
  readonly workspace_mb?: number | undefined;
  /** Default 262,144. */
  readonly inodes?: number | undefined;
  /** One envelope per command. */
  readonly fresh?: boolean | undefined;
  /** `tmpfs` (default) is gone with its runner; `disk` keeps every acknowledged write, and can be started again. Needs a daemon. */
  readonly workspace?: 'tmpfs' | 'disk' | undefined;
  /** Programs that its commands may run; with `enforce: "kernel"`, the default, the kernel holds them to it, or the sandbox is refused. */
  readonly sandbox_allowed_commands?: AllowedCommands | undefined;
  /** For people and lists; at most 200 characters. */
  readonly label?: string | undefined;
  /** Minutes until it is destroyed by itself. Needs a daemon, which has a default. */
  readonly lifetime_minutes?: number | undefined;
}

/** What an operator lets one sandbox have at most; absent: what the machine has. */
export type SandboxCeilings = Pick<SandboxSpec, 'memory_mb' | 'cpus' | 'pids' | 'workspace_mb' | 'inodes'>;

/** Where a sandbox is in its life. */
export type SandboxState = 'creating' | 'ready' | 'stopping' | 'stopped' | 'failed' | 'destroyed';

/** A sandbox as lists and status calls show it. */
export interface SandboxSummary {
  readonly id: string;
  readonly state: SandboxState;
  /** Why it is not ready: `requested`, `lifetime`, `runner_lost`, `sandbox_failed`, `workspace_lost`, `daemon_stopped`, `start_failed`; else `null`. */
  readonly state_reason: string | null;
  readonly label: string | null;
  /** ISO 8601, UTC. */
  readonly created_at: string;
  readonly destroyed_at: string | null;
  readonly expires_at: string;
  readonly workspace: {
    readonly kind: 'tmpfs' | 'disk';
    /** Whether its files exist: `true` while it is ready, and for a `disk` one until it is destroyed. */
    readonly kept: boolean;
  };
  /** `null` before it is ready. */
  readonly effective: Effective | null;
}

/** What one sandbox uses now; `null` where the kernel can't say it. */
export interface SandboxUsage {
  readonly memory_bytes: number | null;
  readonly cpu_ms: number | null;
  readonly processes: number | null;
  /** Execs that run. */
  readonly execs: number;
}

/** Sandboxes that outlive their creator. Errors of each: `not_found`. */
export interface SandboxesPort {
  connect(id: string, signal?: AbortSignal): Promise<SandboxPort>;
  get(id: string, signal?: AbortSignal): Promise<SandboxSummary>;
  /** Oldest first. With `active_only` those that are destroyed may be left out; its caller looks at `state` anyway. */
  list(signal?: AbortSignal, filter?: { readonly active_only?: boolean }): AsyncIterable<SandboxSummary>;
  /** Moves the end of its life to `minutes` from now; refused where it has come. Errors: `closing`. */
  extend(id: string, minutes: number, signal?: AbortSignal): Promise<SandboxSummary>;
  /** Ends everything in it and keeps its files; only of a `disk` workspace. Errors: `workspace_not_kept`. */
  stop(id: string, signal?: AbortSignal): Promise<SandboxSummary>;
  /** Makes a stopped or failed one ready again, with its files and no process. Errors: `workspace_not_kept`. */
  start(id: string, signal?: AbortSignal): Promise<SandboxPort>;
  destroy(id: string): Promise<void>;
}

/** Makes sandboxes. */
export interface SandboxProvider {
  /** `null` where sandboxes end with this process. */
  readonly sandboxes: SandboxesPort | null;
  create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxPort>;
  /** Destroys what it made, unless that outlives this process; idempotent. */
  close(): Promise<void>;
}

/** A sandbox with what it uses; `null` where it is not ready. */
export interface SandboxWithUsage extends SandboxSummary {
  readonly usage: SandboxUsage | null;
}

/** A key of a server, as lists show it; the key itself is shown when it is made, and nowhere else. */
export interface ApiKey {
  readonly id: string;
  readonly name: string;
  /** Sandboxes belong to it. */
  readonly account: string;
  /** Sees all accounts and manages keys. */
  readonly admin: boolean;
  /** The first characters of the key. */
  readonly prefix: string;
  /** ISO 8601, UTC. */
  readonly created_at: string;
  /** To the minute. */
  readonly last_used_at: string | null;
}

/** A key that was just made. */
export interface NewApiKey extends ApiKey {
  readonly key: string;
}

/** Keys of a server. Errors: `admin_required`. */
export interface ApiKeysPort {
  /** The account defaults to the caller's. */
  create(
    options: { readonly name: string; readonly account?: string | undefined; readonly admin?: boolean | undefined },
    signal?: AbortSignal,
  ): Promise<NewApiKey>;
  list(signal?: AbortSignal): Promise<readonly ApiKey[]>;
  /** What uses it is refused from now on. Errors: `not_found`; `conflict` for the one that the server's machine uses. */
  remove(id: string, signal?: AbortSignal): Promise<void>;
}

/** A provider behind `/v1`: a daemon or a server elsewhere. Closing it lets go of connections; its sandboxes stay. */
export interface ServerPort extends SandboxProvider {
  readonly sandboxes: SandboxesPort;
  readonly keys: ApiKeysPort;
  /** Like `sandboxes.list` without those that are destroyed, each with what it uses now. */
  usage(signal?: AbortSignal): AsyncIterable<SandboxWithUsage>;
}
