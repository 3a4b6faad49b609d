/** A command of a sandbox whose input, output, terminal and signals are this process's. */

import type { ExecHandle, ExecLimits, ExecRecord, ExecRequest, OutputStream, SandboxPort } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure, shellStatus } from '@boxkite/protocol';
import type { ExecResult } from 'boxkite';
import { collect } from 'boxkite';
import { EXIT } from './exit-status.ts';
import { Input } from './input.ts';
import type { Interrupts } from './interrupts.ts';
import type { CommandIo } from './io.ts';
import { LiveOutput } from './live-output.ts';
import { TerminalModes } from './terminal-modes.ts';

const JSON_OUTPUT_BYTES = 8 * 1024 * 1024;

/** What is run, and how it is attached. */
export interface AttachedRequest {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly timeout_ms: number | undefined;
  readonly limits?: ExecLimits | undefined;
  /** Pass standard input on. */
  readonly input: boolean;
  /** Give the command a terminal. */
  readonly tty: boolean;
  /** Print the record with its output as one object, instead of the output as it comes. */
  readonly json: boolean;
}

/** How `run` attaches: input where there can be any, a terminal where there is one. */
export function attachedByDefault(io: CommandIo, json: boolean): Pick<AttachedRequest, 'input' | 'tty' | 'json'> {
  return { input: !io.stdinEmpty, tty: io.terminal && !json, json };
}

/** The kind of terminal, for the command's environment, where the caller's has a usable name. */
function terminalType(io: CommandIo): Readonly<Record<string, string>> {
  const type = io.env['TERM'];
  return type !== undefined && /^[\w.+-]{1,64}$/.test(type) ? { TERM: type } : {};
}

/** Runs one command and returns the exit status that a shell would report for it. */
export class AttachedCommand {
  readonly #request: AttachedRequest;
  readonly #io: CommandIo;
  readonly #interrupts: Interrupts;

  constructor(request: AttachedRequest, io: CommandIo, interrupts: Interrupts) {
    this.#request = request;
    this.#io = io;
    this.#interrupts = interrupts;
  }

  async run(sandbox: SandboxPort): Promise<number> {
    const handle = await sandbox.exec(this.#execRequest(), this.#interrupts.signal);
    const input = this.#input();
    const modes = this.#request.tty && this.#io.isTerminal(1) ? new TerminalModes() : null;
    const leave = this.#request.tty ? this.#enterTerminal(handle, modes) : null;
    const passing = input?.pass(handle);
    // A fault of the input is told when the command has ended; until then nobody waits for it.
    passing?.catch((): undefined => undefined);
    const passed = async (): Promise<void> => {
      input?.stop();
      await passing;
    };
    try {
      const ended = this.#request.json ? this.#recorded(handle, passed) : this.#live(handle, modes, leave);
      const status = await (input === null ? ended : Promise.race([ended, input.unkilled]));
      await passed();
      return status;
    } finally {
      // The mode of a terminal can't be set back once its stream is closed.
      leave?.();
      input?.stop();
    }
  }

  #input(): Input | null {
    const { input, tty } = this.#request;
    if (!input) return null;
    const terminal = this.#io.isTerminal(0);
    return new Input(this.#io.stdin(), { terminal, keys: terminal && tty });
  }

  #execRequest(): ExecRequest {
    const { argv, cwd, env, timeout_ms, limits, input, tty } = this.#request;
    return {
      argv,
      cwd,
      timeout_ms,
      ...(limits === undefined ? {} : { limits }),
      env: tty ? { ...terminalType(this.#io), ...env } : env,
      stdin: input ? 'stream' : undefined,
      tty: tty ? this.#io.terminalSize() : undefined,
      overflow: 'block',
    };
  }

  /** Raw mode passes keys on as they are, Ctrl-C too, which the sandbox's own terminal then turns into a signal. */
  #enterTerminal(handle: ExecHandle, modes: TerminalModes | null): () => void {
    const resize = async (): Promise<void> => {
      const { columns, rows } = this.#io.terminalSize();
      try {
        await handle.resize(columns, rows);
      } catch (error) {
        // The command has just ended, or its output tells what has happened.
        if (!(error instanceof BoxkiteFailure)) throw error;
      }
    };
    const stop = this.#io.onSignal(['SIGWINCH'], () => void resize());
    const raw = this.#request.input && this.#io.isTerminal(0);
    if (raw) this.#io.setRawMode(true);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      stop();
      const restoration = modes?.restoration() ?? '';
      if (restoration !== '') this.#io.stdout().write(restoration);
      if (raw) this.#io.setRawMode(false);
    };
  }

  async #live(handle: ExecHandle, modes: TerminalModes | null, leave: (() => void) | null): Promise<number> {
    const output = new LiveOutput(this.#io, {
      brokenPipe: () => void this.#kill(handle),
      ended: () => this.#interrupts.commandEnded(),
      gap: (stream, from, to) => this.#say(gapText(stream, from, to)),
      stdout: (data) => modes?.see(data),
    });
    this.#interrupts.forwardTo(handle, () => output.abandon());
    const record = await output.pass(handle);
    // Lines of ours are for a terminal that is as it was.
    leave?.();
    if (record === null) throw new BoxkiteError('internal', 'the output of the command ended without its record');
    if (output.brokenPipe) return EXIT.brokenPipe;
    this.#explain(record);
    return this.#interrupts.exitStatus ?? shellStatus(record);
  }

  /** A kill that fails is told by the output, which ends. */
  async #kill(handle: ExecHandle): Promise<void> {
    try {
      await handle.kill();
    } catch (error) {
      if (!(error instanceof BoxkiteFailure)) throw error;
    }
  }

  /** The one object on standard output is the record, or what went wrong with the input. */
  async #recorded(handle: ExecHandle, passed: () => Promise<void>): Promise<number> {
    this.#interrupts.forwardTo(handle, () => undefined);
    const result = await collect(handle, JSON_OUTPUT_BYTES);
    this.#interrupts.commandEnded();
    await passed();
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
    if (record.end === 'lost') this.#say('the command was lost with its runner');
  }

  #say(text: string): void {
    this.#io.stderr().write(`boxkite: ${text}\n`);
  }
}

/** What a person is told about missing output. */
export function gapText(stream: OutputStream, from: number, to: number): string {
  return `bytes ${from} to ${to} of ${stream} are not kept`;
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

/** Whether bytes are UTF-8. */
export function isText(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    // The one thing that this decoder reports.
    return false;
  }
}
