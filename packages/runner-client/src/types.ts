import type { Socket } from 'node:net';
import type { Effective } from '@boxkite/protocol';

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
}

/** A sandbox that works, and what was measured of it. */
export interface OpenedSandbox {
  readonly sandbox: SandboxId;
  readonly effective: Effective;
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
}

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
}
