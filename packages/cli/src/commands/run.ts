/** `boxkite run`: one command in a fresh sandbox that ends with it. */

import type { ExecHandle, ExecRecord, ExecRequest, SandboxPort, SandboxProvider } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { ExecResult } from 'boxkite';
import { collect, shellStatus } from 'boxkite';
import { EXIT, exitStatusOf } from '../exit-status.ts';
import { Input } from '../input.ts';
import { Interrupts } from '../interrupts.ts';
import type { CommandIo } from '../io.ts';
import { LiveOutput } from '../live-output.ts';
import { describeError, errorBody } from '../report-error.ts';
import type { RunRequest } from '../run-options.ts';
import { parseRun, runHelp } from '../run-options.ts';

const JSON_OUTPUT_BYTES = 8 * 1024 * 1024;

/** Runs `boxkite run` with the words after it and returns the exit status. */
export async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  const request = parseRun(args);
  if (request === null) {
    io.stdout().write(runHelp());
    return EXIT.ok;
  }
  const interrupts = new Interrupts(io);
  try {
    return await new Run(request, io, interrupts).run();
  } catch (error) {
    const interrupted = interrupts.exitStatus;
    if (interrupted !== null) return interrupted;
    if (request.json) io.stdout().write(`${JSON.stringify(errorBody(error), null, 2)}\n`);
    io.stderr().write(describeError(error));
    return exitStatusOf(error);
  } finally {
    interrupts.stop();
  }
}

class Run {
  readonly #request: RunRequest;
  readonly #io: CommandIo;
  readonly #interrupts: Interrupts;

  constructor(request: RunRequest, io: CommandIo, interrupts: Interrupts) {
    this.#request = request;
    this.#io = io;
    this.#interrupts = interrupts;
  }

  async run(): Promise<number> {
    const { createLocalProvider } = await import('@boxkite/local');
    const provider: SandboxProvider = createLocalProvider({
      runtimeDirectory: this.#io.env['XDG_RUNTIME_DIR'],
      // One sandbox with one command: more would be made for nobody.
      blanks: 1,
      onNote: (note) => this.#say(note),
    });
    try {
      const sandbox = await provider.create(this.#request.spec, this.#interrupts.signal);
      return await this.#inside(sandbox);
    } finally {
      await provider.close();
    }
  }

  get #terminal(): boolean {
    return this.#io.terminal && !this.#request.json;
  }

  async #inside(sandbox: SandboxPort): Promise<number> {
    const handle = await sandbox.exec(this.#execRequest(), this.#interrupts.signal);
    const input = this.#io.stdinEmpty ? null : new Input(this.#io.stdin());
    const leave = this.#terminal ? this.#enterTerminal(handle) : null;
    const passing = input?.pass(handle);
    // A fault of the input is told when the command has ended; until then nobody waits for it.
    passing?.catch((): undefined => undefined);
    try {
      const status = await (this.#request.json ? this.#recorded(handle) : this.#live(handle));
      leave?.();
      input?.stop();
      await passing;
      return status;
    } finally {
      // The mode of a terminal can't be set back once its stream is closed.
      leave?.();
      input?.stop();
    }
  }

  #execRequest(): ExecRequest {
    const { argv, cwd, env, timeout_ms } = this.#request;
    const type = this.#io.env['TERM'];
    const known = type !== undefined && /^[\w.+-]{1,64}$/.test(type) ? { TERM: type } : {};
    return {
      argv,
      cwd,
      timeout_ms,
      env: this.#terminal ? { ...known, ...env } : env,
      stdin: this.#io.stdinEmpty ? undefined : 'stream',
      tty: this.#terminal ? this.#io.terminalSize() : undefined,
      overflow: 'block',
    };
  }

  /** Raw mode passes keys on as they are, Ctrl-C too, which the sandbox's own terminal then turns into a signal. */
  #enterTerminal(handle: ExecHandle): () => void {
    const resize = async (): Promise<void> => {
      const { columns, rows } = this.#io.terminalSize();
      try {
        await handle.resize(columns, rows);
      } catch (error) {
        // The command has just ended.
        if (!(error instanceof BoxkiteError)) throw error;
      }
    };
    const stop = this.#io.onSignal(['SIGWINCH'], () => void resize());
    this.#io.setRawMode(true);
    return () => {
      stop();
      this.#io.setRawMode(false);
    };
  }

  async #live(handle: ExecHandle): Promise<number> {
    const output = new LiveOutput(this.#io, () => void handle.kill());
    this.#interrupts.forwardTo(handle, () => output.abandon());
    const record = await output.pass(handle, () => this.#interrupts.commandEnded());
    if (output.brokenPipe) return EXIT.brokenPipe;
    this.#explain(record);
    return this.#interrupts.exitStatus ?? shellStatus(record);
  }

  async #recorded(handle: ExecHandle): Promise<number> {
    this.#interrupts.forwardTo(handle, () => undefined);
    const result = await collect(handle, JSON_OUTPUT_BYTES);
    this.#interrupts.commandEnded();
    this.#io.stdout().write(`${JSON.stringify(jsonRecord(result), null, 2)}\n`);
    return this.#interrupts.exitStatus ?? shellStatus(result);
  }

  /** Why a command ended that did not end by itself. */
  #explain(record: ExecRecord): void {
    const { memory } = record.effective;
    const room = memory.bytes === null ? '' : ` of ${Math.round(memory.bytes / 1024 / 1024)} MiB`;
    if (record.end === 'timed_out')
      this.#say(`the command reached its time limit of ${(this.#request.timeout_ms ?? 0) / 1000} s and was killed`);
    if (record.end === 'out_of_memory')
      this.#say(`the command reached its memory limit${room} and was killed; see --memory`);
    if (record.end === 'killed') this.#say(`the command was killed (${record.reason ?? 'no reason is known'})`);
  }

  #say(text: string): void {
    this.#io.stderr().write(`boxkite: ${text}\n`);
  }
}

/** The record with its output as text; output that is not UTF-8 comes as base64 too, so that no byte is lost. */
function jsonRecord(result: ExecResult): object {
  const { raw, ok: _ok, exitCode: _exitCode, ...record } = result;
  return {
    ...record,
    ...(isText(raw.stdout) ? {} : { stdout_base64: Buffer.from(raw.stdout).toString('base64') }),
    ...(isText(raw.stderr) ? {} : { stderr_base64: Buffer.from(raw.stderr).toString('base64') }),
  };
}

function isText(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    // The one thing that this decoder reports.
    return false;
  }
}
