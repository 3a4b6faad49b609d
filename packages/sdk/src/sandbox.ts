/** The one class of the SDK: a sandbox and what can be done in it. */

import type { Effective, ExecRequest, SandboxPort, SandboxProvider, SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { collect } from './collect.ts';
import type { Command, CommandOptions } from './command.ts';
import { execRequest } from './command.ts';
import type { WaitOptions } from './deadline.ts';
import { Deadline } from './deadline.ts';
import { CommandFailedError } from './errors.ts';
import { SandboxFiles } from './files.ts';
import { DefaultProvider } from './provider.ts';
import type { ExecResult } from './result.ts';
import { ExecStream } from './stream.ts';

/** What a new sandbox is to be; everything has a default. */
export interface SandboxOptions extends SandboxSpec, WaitOptions {
  /** Where it comes from. Default: this Linux machine, by a runner that ends with this process. */
  readonly provider?: SandboxProvider | undefined;
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

/** Private runners belong to the process, so every sandbox that names no provider shares this one. */
const defaultProvider = new DefaultProvider();

/** One isolated environment. Its commands share files and nothing else: no network, no process of another command. */
export class Sandbox implements AsyncDisposable {
  readonly #port: SandboxPort;
  /** The files below `/workspace` and the other roots. */
  readonly files: SandboxFiles;

  private constructor(port: SandboxPort) {
    this.#port = port;
    this.files = new SandboxFiles(port.files);
  }

  /**
   * Makes a sandbox; it works when this resolves. `await using` destroys it at the end of its block.
   * Errors: `isolation_unavailable` for a control that was asked for and can't be enforced here, `invalid_request`,
   * `runner_failed`, `unsupported_platform`, `aborted`, `timeout`.
   */
  static async create(options: SandboxOptions = {}): Promise<Sandbox> {
    const { provider, signal, timeout_ms, ...spec } = options;
    const from = provider ?? (await defaultProvider.get());
    const port = await new Deadline({ signal, timeout_ms }).run((either) => from.create(spec, either));
    return new Sandbox(port);
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
   * program can't be run (a string is for the shell, which reports 127 and 126); `aborted`, `runner_lost`.
   */
  async exec(command: Command, options: ExecOptions = {}): Promise<ExecResult> {
    const { signal } = options;
    const cap = checkedCap(options.max_output_bytes);
    const request = { ...execRequest(command, options), stdin: bytes(options.stdin) };
    const handle = await this.#port.exec(request, signal);
    const result = await collect(handle, cap, signal);
    if (options.check === true && !result.ok) throw new CommandFailedError(result);
    return result;
  }

  /** Starts a command and returns at once; its events, and the errors of its start, come by iterating what is returned. */
  stream(command: Command, options: StreamOptions = {}): ExecStream {
    const { signal } = options;
    const request: ExecRequest = {
      ...execRequest(command, options),
      stdin: options.stdin === 'stream' ? 'stream' : bytes(options.stdin),
      tty: options.tty,
      overflow: 'block',
    };
    return new ExecStream(this.#port.exec(request, signal), signal);
  }

  /** Ends everything in the sandbox and removes its files; resolves when nothing is left. Idempotent. */
  destroy(): Promise<void> {
    return this.#port.destroy();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.destroy();
  }
}

function bytes(data: string | Uint8Array | undefined): Uint8Array | undefined {
  return typeof data === 'string' ? new TextEncoder().encode(data) : data;
}

function checkedCap(value: unknown): number {
  if (value === undefined) return DEFAULT_OUTPUT_BYTES;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new BoxkiteError('invalid_request', 'max_output_bytes is to be a whole number', {
    details: { field: 'max_output_bytes' },
  });
}
