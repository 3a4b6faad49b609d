import type { Socket } from 'node:net';
import type { Effective, ExecRequest } from '@boxkite/protocol';
import type { ReadMemory } from './read-memory.ts';

/** The runner's number of a sandbox: an opaque unsigned 64-bit value. */
export type SandboxId = bigint;

/** What a new sandbox is to be, in the runner's units. All of it is enforced, or refused where `require…` says so. */
export interface OpenRequest {
  /** Bytes of memory of one command. */
  readonly memoryBytes: number;
  /** Bytes of the five roots together. */
  readonly workspaceBytes: number;
  /** Inodes of the five roots together. */
  readonly inodes: number;
  /** Processes and threads of one command. */
  readonly pids: number;
  /** CPU rate in thousandths of a core; 0 for no rate. */
  readonly cpuMillis: number;
  /** Index into the runner's `--root` list. */
  readonly root: number;
  /** One envelope per command. */
  readonly fresh?: boolean | undefined;
  /** Refuse with `isolation_unavailable` where the memory limit can't be enforced. */
  readonly requireMemory?: boolean | undefined;
  /** Refuse with `isolation_unavailable` where the CPU rate can't be enforced. */
  readonly requireCpu?: boolean | undefined;
  /** What holds the five roots; default `tmpfs`. */
  readonly workspace?: OpenWorkspace | undefined;
  /** What its commands may execute; default: everything. */
  readonly programs?: ProgramPolicy | undefined;
}

/** What the kernel lets commands of a sandbox execute, or map as code. */
export interface ProgramPolicy {
  /**
   * Names that are looked for in the PATH of commands, or absolute paths: at most 1,024, together 64 KiB in UTF-8, all in
   * the sandbox's root file system. `sh` is always among them, and so is what a program is linked with, and the shared
   * objects of a listed interpreter's own modules.
   */
  readonly programs: readonly string[];
}

/** A list of programs that is in force. */
export interface ProgramsSet {
  /** Of an envelope that was made for it. */
  readonly effective: Effective;
  /** Names that no file of the root has, so that there is nothing to execute: builtins of the shell, programs that are not installed. */
  readonly missing: readonly string[];
}

/** Bytes of a UUID. */
export type WorkspaceId = Uint8Array;

/**
 * `tmpfs` is gone with its sandbox or its runner. `disk` is on the runner's disk under `id`, and can outlive both: a new
 * one, or with `reopen` one that was kept, whose size stays what it was made with.
 */
export type OpenWorkspace =
  | { readonly kind: 'tmpfs' }
  | { readonly kind: 'disk'; readonly id: WorkspaceId; readonly reopen: boolean };

/** How a sandbox is closed. */
export interface CloseOptions {
  /** Keep its `disk` workspace under its id, for a later `reopen`; default: nothing is left. */
  readonly keep?: boolean | undefined;
}

/** What a listing is to hold. */
export interface ListingOptions {
  /** Also read what each sandbox uses: some small reads per sandbox. */
  readonly usage?: boolean | undefined;
}

/** A sandbox that works, and what was measured of it. */
export interface OpenedSandbox {
  readonly sandbox: SandboxId;
  readonly effective: Effective;
  /** `missing` of `ProgramsSet`, where it was opened with a list. */
  readonly missing?: readonly string[] | undefined;
}

/** Which roots a file agent sees: the commands' view, or only uploads and skills, writable. */
export type FileView = 'commands' | 'provision';

/** A sandbox as the runner lists it. */
export interface ListedSandbox {
  readonly sandbox: SandboxId;
  /** Envelopes of it, and how many of those run no command. */
  readonly envelopes: number;
  readonly idle: number;
  readonly closing: boolean;
  /** Id of its `disk` workspace; `null` for a tmpfs. */
  readonly workspace: WorkspaceId | null;
  /** `null` in all three unless asked for, or where the kernel does not count it. */
  readonly usage: ListedUsage;
}

/** What a sandbox uses now: its commands, its file agents and the pages of its tmpfs. */
export interface ListedUsage {
  readonly memoryBytes: number | null;
  /** CPU time so far, in microseconds. */
  readonly cpuUs: number | null;
  /** Processes and threads, one PID 1 per envelope included. */
  readonly processes: number | null;
}

/**
 * A command. With a `channel` it has one more descriptor, 3, a stream socket both ways: `write` writes to it, what the
 * command writes to it is `stdout`, and its standard output and error are, in one order, `stderr`. The end of a writer
 * leaves the channel open, so that a later `attach` goes on.
 */
export type RunnerExecRequest = Omit<ExecRequest, 'stdin'> & {
  readonly stdin?: ExecRequest['stdin'] | 'channel';
};

/** An exec that runs, or whose record waits for its commit. */
export interface ListedExec {
  readonly exec_id: string;
  readonly sandbox: SandboxId;
  readonly state: 'starting' | 'running' | 'ended';
  /** Whether some connection consumes its output. */
  readonly attached: boolean;
  /** Byte offsets per stream: committed, and produced by the command. */
  readonly stdout: { readonly committed: number; readonly produced: number };
  readonly stderr: { readonly committed: number; readonly produced: number };
}

/** All that a runner holds. */
export interface RunnerListing {
  readonly sandboxes: readonly ListedSandbox[];
  readonly execs: readonly ListedExec[];
  /** Ids of all `disk` workspaces, those of open sandboxes included. */
  readonly workspaces: readonly WorkspaceId[];
}

/** One layer of isolation, as the runner tried it at its start. */
export interface ProbeEntry {
  /** Name of a layer, such as `landlock`. */
  readonly name: string;
  readonly status: 'missing' | 'works' | 'not_needed';
  /** In words, for people. */
  readonly detail: string;
}

/** What the machine can enforce. */
export interface ProbeReport {
  /** How sandboxes get their ids: by root, by an id range, or all as one id. */
  readonly mode: 'root' | 'id_range' | 'one_id';
  readonly layers: readonly ProbeEntry[];
}

/** How a client reaches its runner beside its own connection. */
export interface RunnerClientOptions {
  /** Opens one more connection to the same runner (`runner.sock`); for standard input, files and nothing else. */
  readonly connect: () => Promise<Socket>;
  /** The environment that every command gets; a request's `env` is added to it. The client adds nothing. */
  readonly environment: Readonly<Record<string, string>>;
  /** What the client's own socket is read into, where it was made with its `options`. */
  readonly memory?: ReadMemory | undefined;
  /** Most bytes of standard input that may wait for commands, shared by the sandboxes. Default: no bound. */
  readonly stdinBytes?: number | undefined;
}
