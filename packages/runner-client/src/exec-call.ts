import type { Buffer } from 'node:buffer';
import type { BoxkiteError } from '@boxkite/protocol';
import { decodeStarted } from './answers.ts';
import type { Connection, PendingCall } from './connection.ts';
import { type CommitMode, RunnerExecution } from './execution.ts';
import { abortedBy, naming } from './faults.ts';
import { FrameType } from './frames.ts';
import { type ExecFields, encodeExec } from './operations.ts';
import type { HeldInput, StdinWriter } from './stdin.ts';
import type { RunnerExecRequest } from './types.ts';

/** What an exec call needs beside its fields. */
export interface ExecCallOptions {
  /** What the caller asked for, for errors that name it. */
  readonly request: RunnerExecRequest;
  readonly outputBytes: number | undefined;
  readonly commits: CommitMode | undefined;
  /** The writer of standard input once the exec has its number; absent where it has no later input. */
  readonly stdin: ((exec: bigint) => StdinWriter) | null;
  /** Input that is written and closed in the background. */
  readonly input: HeldInput | null;
  readonly signal: AbortSignal | undefined;
}

/**
 * One `exec` request. Aborted before the start it rejects `aborted` only when nothing of it runs; aborted later it kills
 * the exec, whose handle then ends as `killed`.
 */
export function startExec(
  connection: Connection,
  fields: ExecFields,
  options: ExecCallOptions,
): Promise<RunnerExecution> {
  return new Promise((resolve, reject) => {
    const call = new ExecCall(connection, options, resolve, reject);
    options.signal?.addEventListener('abort', call.abort);
    connection.call((request) => encodeExec(request, fields), call);
  });
}

class ExecCall implements PendingCall {
  readonly expects = FrameType.started;
  readonly #connection: Connection;
  readonly #options: ExecCallOptions;
  readonly #resolve: (execution: RunnerExecution) => void;
  readonly #reject: (error: BoxkiteError) => void;
  #execution: RunnerExecution | null = null;

  constructor(
    connection: Connection,
    options: ExecCallOptions,
    resolve: (execution: RunnerExecution) => void,
    reject: (error: BoxkiteError) => void,
  ) {
    this.#connection = connection;
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Before the answer there is nothing to kill yet: the answer finds the signal aborted. */
  readonly abort = (): void => this.#execution?.requestKill();

  answer(payload: Buffer): void {
    const { exec, effective } = decodeStarted(payload, this.#connection.effective);
    const { outputBytes, commits, input, signal } = this.#options;
    const stdin = this.#options.stdin?.(exec) ?? null;
    const start = { exec, effective, stdoutFrom: 0, stderrFrom: 0, outputBytes, stdin, commits };
    const execution = new RunnerExecution(this.#connection, start);
    this.#connection.consume(exec, execution);
    this.#execution = execution;
    if (stdin !== null && input !== null) stdin.writeAll(input, (error) => execution.spoil(error));
    if (signal === undefined) {
      this.#resolve(execution);
    } else if (signal.aborted) {
      this.#discard(execution, signal);
    } else {
      execution.whenEnded(() => signal.removeEventListener('abort', this.abort));
      this.#resolve(execution);
    }
  }

  fail(error: BoxkiteError): void {
    const { request, input, signal } = this.#options;
    input?.free();
    signal?.removeEventListener('abort', this.abort);
    this.#reject(signal?.aborted === true ? abortedBy(signal) : naming(error, request));
  }

  /** Kills what nobody will hold, takes its events, and rejects when it is dead. */
  #discard(execution: RunnerExecution, signal: AbortSignal): void {
    signal.removeEventListener('abort', this.abort);
    execution.discard();
    execution.whenEnded(() => this.#reject(abortedBy(signal)));
  }
}
