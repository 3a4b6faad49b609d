/** Execs of one sandbox that outlive whoever started them. */
import type {
  ExecEvent,
  ExecHandle,
  ExecSummary,
  ExecsPort,
  OutputRange,
  OutputStream,
  SandboxPort,
} from '@boxkite/protocol';
import type { ByteSource } from './byte-source.ts';
import { byteChunks } from './byte-source.ts';
import type { Command, CommandOptions } from './command.ts';
import { execRequest, inputBytes } from './command.ts';
import type { WaitOptions } from './deadline.ts';
import { Deadline } from './deadline.ts';
import { finishThenUndo } from './http/undo.ts';
import { checkOptions } from './known-options.ts';
import { needsDaemon } from './provider.ts';
import type { StreamEvent } from './stream.ts';
import { ExecStream, streamEvents } from './stream.ts';

/** How a command runs in the background. `signal` and the end of this program do not end it. */
export interface StartOptions extends Omit<CommandOptions, 'signal'> {
  /** `'stream'`: by `write` and `closeStdin` of what `attach` returns. Default: nothing to read. */
  readonly stdin?: string | Uint8Array | 'stream' | undefined;
  /** A terminal of this size instead of pipes; its output is `stdout`. */
  readonly tty?: { readonly columns: number; readonly rows: number } | undefined;
  /** With nobody attached and its log full: `drop` (default) goes on without the bytes in between, `block` waits. */
  readonly overflow?: 'drop' | 'block' | undefined;
  /** Aborting before the command has started cancels the start. */
  readonly signal?: AbortSignal | undefined;
}

/** Where output is read from. */
export interface ReadOutputOptions extends WaitOptions {
  /** First byte of each stream's log. Default 0. */
  readonly stdout?: number | undefined;
  readonly stderr?: number | undefined;
  /** One stream alone. Default both. */
  readonly only?: OutputStream | undefined;
}

/** What is read of a record's output. */
export interface OutputOptions extends ReadOutputOptions {
  /** Go on until the command has ended. Default true; `false` ends with what is there by now. */
  readonly follow?: boolean | undefined;
}

/** How a running command is joined. */
export interface AttachOptions extends ReadOutputOptions {
  /** Written to the command as it comes, then closed; a failure of its source is the stream's. Default, and `'stream'`: by `write` and `closeStdin`. */
  readonly stdin?: string | Uint8Array | ByteSource | 'stream' | undefined;
  /** Gives its terminal this size first. */
  readonly tty?: { readonly columns: number; readonly rows: number } | undefined;
}

/** Commands of one sandbox, with their records. All of it needs a daemon; errors: `unsupported` where there is none. */
export class SandboxExecs {
  readonly #port: () => SandboxPort;

  constructor(port: () => SandboxPort) {
    this.#port = port;
  }

  /**
   * Starts a command in the background and returns its record so far. It lives until it ends, is killed, reaches its
   * time limit, or the sandbox ends. Errors: as of `Sandbox.exec`.
   */
  async start(command: Command, options: StartOptions = {}): Promise<ExecSummary> {
    checkOptions('start', options);
    const { stdin, tty, overflow, signal } = options;
    const request = {
      ...execRequest(command, options),
      stdin: stdin === 'stream' ? ('stream' as const) : inputBytes(stdin),
      tty,
      overflow,
    };
    const execs = portExecs(this.#port());
    return finishThenUndo(
      () => execs.start(request),
      ({ exec_id }) => execs.kill(exec_id),
      signal,
    );
  }

  /** In the order of their start. */
  async list(options: WaitOptions = {}): Promise<readonly ExecSummary[]> {
    return new Deadline(options).run((signal) => portExecs(this.#port()).list(signal));
  }

  /** Errors: `not_found`. */
  async get(execId: string, options: WaitOptions = {}): Promise<ExecSummary> {
    return new Deadline(options).run((signal) => portExecs(this.#port()).get(execId, signal));
  }

  /** Output from the given offsets on, `ended` last where the command has ended. Goes on by itself after a lost connection. */
  output(execId: string, options: OutputOptions = {}): AsyncIterable<StreamEvent> {
    const range = { ...rangeOf(options), follow: options.follow };
    return new Deadline(options).iterate((signal) =>
      streamEvents(portExecs(this.#port()).output(execId, range, signal)),
    );
  }

  /** Sends a signal, by name or number, to the command's process group. Errors: `exec_ended`, `not_found`. */
  async signal(execId: string, signal: string | number): Promise<void> {
    await portExecs(this.#port()).signal(execId, signal);
  }

  /** Kills everything that the command started; resolves when nothing of it is alive. Errors: `exec_ended`, `not_found`. */
  async kill(execId: string): Promise<void> {
    await portExecs(this.#port()).kill(execId);
  }
}

/** Joins a running command. */
export function attachTo(port: SandboxPort, execId: string, options: AttachOptions): ExecStream {
  const deadline = new Deadline(options);
  // A command that waits for input which does not come would keep its reader for ever.
  const fault = new AbortController();
  const signal = deadline.signal === undefined ? fault.signal : AbortSignal.any([deadline.signal, fault.signal]);
  const join = async (): Promise<ExecHandle> => {
    const execs = portExecs(port);
    const handle = await attached(execs, port, execId, rangeOf(options), signal);
    if (options.tty !== undefined) await execs.resize(execId, options.tty.columns, options.tty.rows);
    return handle;
  };
  const stream = new ExecStream(join(), {
    signal,
    leaving: 'detach',
    explain: (e) => deadline.explain(fault.signal.aborted ? fault.signal.reason : e),
  });
  if (options.stdin !== undefined && options.stdin !== 'stream')
    stream.feed(byteChunks(options.stdin)).catch((error: unknown) => fault.abort(error));
  return stream;
}

async function attached(
  execs: ExecsPort,
  port: SandboxPort,
  execId: string,
  range: OutputRange,
  signal: AbortSignal | undefined,
): Promise<ExecHandle> {
  if (execs.attach !== undefined) return execs.attach(execId, range, signal);
  await execs.get(execId, signal);
  return {
    exec_id: execId,
    effective: port.effective,
    [Symbol.asyncIterator]: (): AsyncIterator<ExecEvent> => execs.output(execId, range, signal)[Symbol.asyncIterator](),
    write: (data) => execs.write(execId, data),
    closeStdin: () => execs.closeStdin(execId),
    signal: (name) => execs.signal(execId, name),
    kill: () => execs.kill(execId),
    resize: (columns, rows) => execs.resize(execId, columns, rows),
  };
}

function portExecs(port: SandboxPort): ExecsPort {
  if (port.execs !== null) return port.execs;
  throw needsDaemon('a command in the background');
}

function rangeOf({ stdout, stderr, only }: ReadOutputOptions): OutputRange {
  return { stdout, stderr, only };
}
