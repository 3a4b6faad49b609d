/**
 * The port between the SDK and whatever holds the sandboxes: a private runner in this process, or a daemon over HTTP.
 * Types only. Field names are the wire's (DESIGN 5), so that records pass through unchanged.
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

/** How a file is written. */
export interface WriteOptions {
  readonly mode?: number | undefined;
  /** Make missing parents. Default true. */
  readonly parents?: boolean | undefined;
}

/** Files of the five roots, by the file agent. Relative paths start at `/workspace`. Aborting cancels the call; a cancelled write leaves nothing. */
export interface FilesPort {
  stat(path: string, signal?: AbortSignal): Promise<FileInfo>;
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
  /** A tar stream of a tree. */
  pack(path: string, signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

/** One sandbox, as its user holds it. */
export interface SandboxPort {
  readonly id: string;
  readonly effective: Effective;
  /** Aborting before the start refuses it; after it, kills the exec. */
  exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
  readonly files: FilesPort;
  /** Resolves when nothing of the sandbox is left; idempotent. */
  destroy(): Promise<void>;
}

/** What a new sandbox is to be. */
export interface SandboxSpec {
  /** A directory that holds the root file system; default: the host's. */
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
}

/** Makes sandboxes. */
export interface SandboxProvider {
  create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxPort>;
  /** Destroys what it made; idempotent. */
  close(): Promise<void>;
}
