/** The one class of the SDK: a sandbox and what can be done in it. */

import type {
  Effective,
  ExecRequest,
  SandboxPort,
  SandboxProvider,
  SandboxSpec,
  SandboxSummary,
  SandboxUsage,
} from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { collect, resultOf } from './collect.ts';
import type { Command, CommandOptions } from './command.ts';
import { execRequest, inputBytes } from './command.ts';
import type { WaitOptions } from './deadline.ts';
import { Deadline } from './deadline.ts';
import { CommandFailedError } from './errors.ts';
import type { AttachOptions } from './execs.ts';
import { attachTo, SandboxExecs } from './execs.ts';
import { SandboxFiles } from './files.ts';
import { checkOptions } from './known-options.ts';
import type { SourceOptions } from './provider.ts';
import { isServer, lasting, Providers } from './provider.ts';
import type { ExecResult } from './result.ts';
import { ExecStream } from './stream.ts';

/** What a new sandbox is to be, and where it comes from; everything has a default. */
export interface SandboxOptions extends SandboxSpec, WaitOptions, SourceOptions {}

/** How a sandbox that exists is found. */
export interface ConnectOptions extends WaitOptions, SourceOptions {}

/** Which sandboxes are listed. */
export interface ListOptions extends WaitOptions, SourceOptions {
  /** Those too that are destroyed, as far as they are remembered. Default: only what is there. */
  readonly destroyed?: boolean | undefined;
}

/** How a command runs whose output is collected. */
export interface ExecOptions extends CommandOptions {
  /** Written to standard input, which is then closed. Default: nothing to read. */
  readonly stdin?: string | Uint8Array | undefined;
  /** Throws `CommandFailedError` unless the command ends with exit status 0. */
  readonly check?: boolean | undefined;
  /** Bytes kept of each stream, half from its start and half from its end. All are counted. Default 8 MiB. */
  readonly max_output_bytes?: number | undefined;
}

/** How a command runs whose output is streamed. */
export interface StreamOptions extends CommandOptions {
  /** `'stream'`: by `write` and `closeStdin`. Default: nothing to read. */
  readonly stdin?: string | Uint8Array | 'stream' | undefined;
  /** A terminal of this size instead of pipes; its output is `stdout`. */
  readonly tty?: { readonly columns: number; readonly rows: number } | undefined;
}

const DEFAULT_OUTPUT_BYTES = 8 * 1024 * 1024;

/** Connections and private runners belong to the process, so every sandbox that names no provider shares them. */
const providers = new Providers();

/** One isolated environment. Its commands share files and nothing else: no network, no process of another command. */
export class Sandbox implements AsyncDisposable {
  readonly #provider: SandboxProvider;
  #port: SandboxPort;
  /** The files below `/workspace` and the other roots. */
  readonly files: SandboxFiles;
  /** Commands that outlive whoever started them, and the records of all. Needs a daemon. */
  readonly execs: SandboxExecs;

  private constructor(provider: SandboxProvider, port: SandboxPort) {
    this.#provider = provider;
    this.#port = port;
    this.files = new SandboxFiles(() => this.#port);
    this.execs = new SandboxExecs(() => this.#port);
  }

  /**
   * Makes a sandbox; it works when this resolves. `await using` destroys it at the end of its block.
   * Errors: `isolation_unavailable` for a control that was asked for and can't be enforced here, `invalid_request`,
   * `runner_failed`, `unsupported_platform`, `daemon_unreachable`, `capacity`, `aborted`, `timeout`.
   */
  static async create(options: SandboxOptions = {}): Promise<Sandbox> {
    checkOptions('create', options);
    const { provider, url, apiKey, ca, fetch, daemon, signal, timeout_ms, ...spec } = options;
    return new Deadline({ signal, timeout_ms }).run(async (either) => {
      const from = await providers.get({ provider, url, apiKey, ca, fetch, daemon }, either);
      return new Sandbox(from, await from.create(spec, either));
    });
  }

  /**
   * Finds a sandbox that is ready by its id. Needs a daemon.
   * Errors: `not_found`, `sandbox_not_ready`, `unsupported` where there is no daemon, `daemon_unreachable`.
   */
  static async connect(id: string, options: ConnectOptions = {}): Promise<Sandbox> {
    return new Deadline(options).run(async (signal) => {
      const from = await providers.get(options, signal);
      return new Sandbox(from, await lasting(from).connect(id, signal));
    });
  }

  /** Makes a sandbox that is stopped ready again, with its files and no process. Errors: `not_found`, `workspace_not_kept`. */
  static async start(id: string, options: ConnectOptions = {}): Promise<Sandbox> {
    return new Deadline(options).run(async (signal) => {
      const from = await providers.get(options, signal);
      return new Sandbox(from, await lasting(from).start(id, signal));
    });
  }

  /** The sandboxes of the caller's account, oldest first. Errors: as of `connect`. */
  static list(options: ListOptions = {}): AsyncIterable<SandboxSummary> {
    return new Deadline(options).iterate((signal) => listed(options, signal));
  }

  get id(): string {
    return this.#port.id;
  }

  /** What was measured to be in force, not what was asked for. */
  get effective(): Effective {
    return this.#port.effective;
  }

  /**
   * Runs a command to its end and returns its output. A command that fails, is killed or reaches its time limit is a
   * result, not an error, unless `check` is set. Errors: `command_not_found` and `not_executable` for an array whose
   * program can't be run (a string is for the shell, which reports 127 and 126); `aborted`, `runner_lost`,
   * `connection_lost`.
   */
  async exec(command: Command, options: ExecOptions = {}): Promise<ExecResult> {
    checkOptions('exec', options);
    const { signal } = options;
    const cap = checkedCap(options.max_output_bytes);
    const request = { ...execRequest(command, options), stdin: inputBytes(options.stdin) };
    const result = await this.#run(request, cap, signal);
    if (options.check === true && !result.ok) throw new CommandFailedError(result);
    return result;
  }

  /** Starts a command and returns at once; its events, and the errors of its start, come by iterating what is returned. */
  stream(command: Command, options: StreamOptions = {}): ExecStream {
    checkOptions('stream', options);
    const { signal } = options;
    const request: ExecRequest = {
      ...execRequest(command, options),
      stdin: options.stdin === 'stream' ? 'stream' : inputBytes(options.stdin),
      tty: options.tty,
      overflow: 'block',
    };
    return new ExecStream(this.#port.exec(request, signal), { signal, leaving: 'kill' });
  }

  /**
   * The output of a command that was started by `execs.start`, and a way to write to it. Leaving the loop, an abort or the
   * end of this program leaves the command running. Needs a daemon. Errors: `not_found`.
   */
  attach(execId: string, options: AttachOptions = {}): ExecStream {
    return attachTo(this.#port, execId, options);
  }

  /** Moves the end of its life to `minutes` from now. Needs a daemon. Errors: `closing` where the end has come. */
  async extend(minutes: number, options: WaitOptions = {}): Promise<SandboxSummary> {
    return new Deadline(options).run((signal) => lasting(this.#provider).extend(this.id, minutes, signal));
  }

  /** Ends everything that runs in it and keeps its files. Needs a daemon. Errors: `workspace_not_kept`. */
  async stop(options: WaitOptions = {}): Promise<SandboxSummary> {
    return new Deadline(options).run((signal) => lasting(this.#provider).stop(this.id, signal));
  }

  /** Makes it ready again after `stop`, or after the end of its runner, with its files and no process. Errors: `workspace_not_kept`. */
  async start(options: WaitOptions = {}): Promise<void> {
    this.#port = await new Deadline(options).run((signal) => lasting(this.#provider).start(this.id, signal));
  }

  /** Where it is in its life, and until when. Needs a daemon. */
  async status(options: WaitOptions = {}): Promise<SandboxSummary> {
    return new Deadline(options).run((signal) => lasting(this.#provider).get(this.id, signal));
  }

  /** What it uses now; `null` for what the kernel can't say. Needs a daemon. Errors: `sandbox_not_ready`. */
  async usage(options: WaitOptions = {}): Promise<SandboxUsage> {
    return new Deadline(options).run((signal) => usageOf(this.#provider, this.id, signal));
  }

  /** Ends everything in the sandbox and removes its files; resolves when nothing is left. Idempotent. */
  destroy(): Promise<void> {
    return this.#port.destroy();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.destroy();
  }

  async #run(request: ExecRequest, cap: number, signal: AbortSignal | undefined): Promise<ExecResult> {
    const { execs } = this.#port;
    const output_bytes = Math.min(cap, request.limits?.output_bytes ?? cap);
    if (execs === null) return collect(await this.#port.exec(request, signal), output_bytes, signal);
    const limits = { ...request.limits, output_bytes };
    return resultOf(await execs.run({ ...request, limits }, signal));
  }
}

async function* listed(options: ListOptions, signal: AbortSignal | undefined): AsyncGenerator<SandboxSummary> {
  const sandboxes = lasting(await providers.get(options, signal));
  const active_only = options.destroyed !== true;
  for await (const sandbox of sandboxes.list(signal, { active_only }))
    if (!active_only || sandbox.state !== 'destroyed') yield sandbox;
}

async function usageOf(provider: SandboxProvider, id: string, signal: AbortSignal | undefined): Promise<SandboxUsage> {
  const sandboxes = lasting(provider);
  if (isServer(provider))
    for await (const each of provider.usage(signal)) if (each.id === id && each.usage !== null) return each.usage;
  const { state } = await sandboxes.get(id, signal);
  throw new BoxkiteError('sandbox_not_ready', `the sandbox is ${state}`, { details: { id, state } });
}

function checkedCap(value: unknown): number {
  if (value === undefined) return DEFAULT_OUTPUT_BYTES;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new BoxkiteError('invalid_request', 'max_output_bytes is to be a whole number', {
    details: { field: 'max_output_bytes' },
  });
}
