/** One interpreter from its start to its end: a Python process that runs one piece of code at a time. */
import { setTimeout as delay } from 'node:timers/promises';
import { BoxkiteError, type ExecRecord } from '@boxkite/protocol';
import type { RunnerAccess, RunnerExecution, SandboxId } from '@boxkite/runner-client';
import { DRIVER } from './driver.ts';
import {
  type CodeReply,
  type Dropped,
  freshNonce,
  type HelloReply,
  Kind,
  MalformedReply,
  type MessageKind,
  ReplyReader,
  readCodeReply,
  readHelloReply,
  requestMessage,
} from './messages.ts';
import { OutputReader } from './output.ts';

/** What an interpreter is started with. */
export interface InterpreterLimits {
  /** Bytes that a call keeps of its output, of its result and of its error, each. */
  readonly outputBytes: number;
  /** Of the process and what it starts, by control group; `null` where none can. */
  readonly memoryMb: number | null;
  /** Of the process alone, where no control group can; `null` where one does. */
  readonly dataMb: number | null;
}

/** Why a call is stopped. */
export type Stop = 'timed_out' | 'aborted' | 'reset';

/** How code ended: by a reply, or by the end of the interpreter. `stopped`: what was done to it before that. */
export type Ending = (
  | { readonly reply: CodeReply; readonly record: null; readonly fault: null }
  | { readonly reply: null; readonly record: ExecRecord; readonly fault: string | null }
) & {
  readonly stopped: Stop | null;
  readonly output: { readonly bytes: Buffer; readonly truncated: boolean };
};

/** What code is run with. */
export interface CallLimits {
  readonly timeoutMs: number;
  /** Aborted: nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined;
}

/** Exit status of a driver whose channel is gone. */
export const CHANNEL_LOST_STATUS = 71;
/** A call that is interrupted at its deadline has so long to end before the interpreter is killed. */
const GRACE_MS = 1000;
/** Bytes of all forms of values that one call shows. */
const FORMS_BYTES = 8 * 1024 * 1024;
/** Beyond the cap, so that a secret that the cap would cut is found whole. */
const SLACK_BYTES = 128 * 1024;
/** Bytes on the channel beside replies: more within one call, or between two, is a flood. */
const MOST_FOREIGN = 16 * 1024 * 1024;
/** Within so much a driver that does nothing else answers. */
const HELLO_MS = 1000;
const MIB = 1024 * 1024;

/** What was asked of the driver, until it is answered. */
interface Pending<Reply = unknown> {
  readonly read: (payload: Buffer) => Reply;
  reply: Reply | null;
  readonly settled: Promise<void>;
  settle(): void;
}

/** See the top. */
export class InterpreterProcess {
  readonly execution: RunnerExecution;
  readonly #limits: Pick<InterpreterLimits, 'outputBytes'>;
  readonly #replies = new ReplyReader();
  readonly #output = new OutputReader();
  #pending: Pending | null = null;
  #record: ExecRecord | null = null;
  #lost: BoxkiteError | null = null;
  /** What is wrong with the channel, where that is why it was killed. */
  #fault: string | null = null;
  #stopped: Stop | null = null;
  #interrupts = 0;
  #foreignAtCall = 0;
  /** Resolves, never rejects, when nothing of it is alive, or the runner is lost. */
  readonly ended: Promise<void>;

  private constructor(execution: RunnerExecution, limits: Pick<InterpreterLimits, 'outputBytes'>, interrupts = 0) {
    this.execution = execution;
    this.#interrupts = interrupts;
    this.#limits = limits;
    this.#output.begin(limits.outputBytes);
    this.ended = this.#read();
  }

  /** Starts one; it serves once `hello` is answered. */
  static async start(runner: RunnerAccess, sandbox: SandboxId, limits: InterpreterLimits): Promise<InterpreterProcess> {
    const { outputBytes, memoryMb, dataMb } = limits;
    const numbers = [outputBytes, FORMS_BYTES, (dataMb ?? 0) * MIB].map(String);
    const request = {
      argv: ['python3', '-I', '-u', '-B', '-X', 'utf8', '-c', DRIVER, ...numbers],
      stdin: 'channel',
      ...(memoryMb === null ? {} : { limits: { memory_mb: memoryMb } }),
    } as const;
    return new InterpreterProcess(await runner.call((client) => client.exec(sandbox, request)), limits);
  }

  /** Goes on with one that an earlier process of this session has started, and has interrupted so many times. */
  static async find(
    runner: RunnerAccess,
    found: { readonly execId: string; readonly interrupts: number },
    limits: Pick<InterpreterLimits, 'outputBytes'>,
  ): Promise<InterpreterProcess> {
    const execution = await runner.call((client) => client.attach(found.execId));
    return new InterpreterProcess(execution, limits, found.interrupts);
  }

  /** How often code was interrupted. */
  get interrupts(): number {
    return this.#interrupts;
  }

  /** What was on its channel and belonged to no call. */
  get dropped(): Readonly<Dropped> {
    return this.#replies.dropped;
  }

  /** Whether it can run nothing any more. */
  get isOver(): boolean {
    return this.#record !== null || this.#lost !== null || this.#fault !== null;
  }

  /** Waits until the driver serves; `null` where it does not within that time, or has ended. Errors: `runner_lost`. */
  async hello(withinMs: number): Promise<HelloReply | null> {
    const timer = new AbortController();
    const pending = this.#send(Kind.hello, '', 64, readHelloReply);
    const late = delay(withinMs, undefined, { signal: timer.signal, ref: false }).catch(() => undefined);
    await Promise.race([pending.settled, late]);
    timer.abort();
    this.#pending = null;
    if (this.#lost !== null) throw this.#lost;
    return pending.reply;
  }

  /** Runs code to its end, whatever that is. One call at a time. Errors: `runner_lost`. */
  async run(code: string, { timeoutMs, signal }: CallLimits): Promise<Ending> {
    this.#stopped = null;
    this.#foreignAtCall = this.#replies.dropped.bytes;
    const most = 4 * this.#limits.outputBytes + 2 * FORMS_BYTES + MIB;
    const pending = this.#send(Kind.code, code, most, readCodeReply);
    const timer = setTimeout(() => this.stop('timed_out'), timeoutMs);
    const abort = (): void => this.stop('aborted');
    if (signal?.aborted === true) abort();
    signal?.addEventListener('abort', abort);
    await pending.settled;
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
    this.#pending = null;
    return this.#ending(pending.reply);
  }

  /** Ends the call that runs: interrupts it, and kills the interpreter where that does not help. */
  stop(why: Stop): void {
    if (this.#pending === null || this.#stopped !== null) return;
    this.#stopped = why;
    const stopped = this.#pending;
    this.#interrupt();
    setTimeout(() => {
      if (this.#pending === stopped) this.execution.requestKill();
    }, GRACE_MS);
  }

  /** Resolves when nothing of it is alive. */
  async kill(why: Stop | null = null): Promise<void> {
    this.#stopped ??= why;
    this.execution.requestKill();
    await this.ended;
  }

  #interrupt(): void {
    this.#interrupts += 1;
    // One that has ended needs none.
    this.execution.signal('SIGINT').catch(() => undefined);
  }

  #send<Reply>(kind: MessageKind, code: string, mostBytes: number, read: (payload: Buffer) => Reply): Pending<Reply> {
    const nonce = freshNonce();
    const { promise: settled, resolve: settle } = Promise.withResolvers<void>();
    const pending: Pending<Reply> = { read, reply: null, settled, settle };
    this.#pending = pending;
    this.#replies.expect(nonce, mostBytes);
    this.#output.begin(this.#limits.outputBytes + SLACK_BYTES);
    if (this.#record !== null || this.#lost !== null) settle();
    this.execution.write(requestMessage(nonce, kind, code)).catch((error: unknown) => {
      const code = error instanceof BoxkiteError ? error.code : null;
      // Its end is told by the events. Nothing else says that no reply comes.
      if (code === 'exec_ended') return;
      this.#broken(code === 'stdin_closed' ? 'it is not read any more' : 'it can not be written to');
    });
    return pending;
  }

  async #ending(reply: CodeReply | null): Promise<Ending> {
    const stopped = this.#stopped;
    if (reply !== null) {
      const output = this.#output.end();
      if (stopped === null || (await this.#calmed()) !== null) {
        return { reply, record: null, fault: null, stopped, output };
      }
      return { reply: null, record: await this.#killed(), fault: this.#fault, stopped, output };
    }
    const record = await this.#killed();
    return { reply: null, record, fault: this.#fault, stopped: this.#stopped, output: this.#output.end() };
  }

  async #killed(): Promise<ExecRecord> {
    this.execution.requestKill();
    await this.ended;
    if (this.#record === null) throw this.#lost ?? new BoxkiteError('runner_lost', 'the runner is gone');
    return this.#record;
  }

  /** What it says once every interrupt has arrived, so that none meets the next call; `null` where that does not come. */
  async #calmed(): Promise<HelloReply | null> {
    const until = performance.now() + HELLO_MS;
    while (performance.now() < until && !this.isOver) {
      const hello = await this.hello(HELLO_MS);
      if (hello !== null && hello.interrupts >= this.#interrupts) return hello;
      await delay(5);
    }
    return null;
  }

  /**
   * Of one that was found: what it says once it serves. The call that it is in, whose caller is gone, is interrupted where
   * it does not end by itself.
   */
  async calm(): Promise<HelloReply | null> {
    const hello = await this.hello(HELLO_MS);
    if (hello !== null && hello.interrupts >= this.#interrupts) return hello;
    if (hello === null && !this.isOver) this.#interrupt();
    return this.#calmed();
  }

  /** Of one that did not come to serve: how it ended, and what it said. Errors: `runner_lost`. */
  failure(): Promise<Ending> {
    return this.#ending(null);
  }

  async #read(): Promise<void> {
    try {
      for await (const event of this.execution) {
        if (event.type === 'ended') this.#record = event.record;
        else if (event.type === 'gap') this.#output.gap();
        else if (event.stream === 'stdout') this.#takeReply(event.data);
        else this.#output.push(event.data);
        this.#settle();
      }
    } catch (error) {
      this.#lost =
        error instanceof BoxkiteError
          ? error
          : new BoxkiteError('runner_lost', 'the interpreter can not be read', { cause: error });
    }
    this.#pending?.settle();
  }

  #takeReply(data: Uint8Array): void {
    const pending = this.#pending;
    const payload = this.#checked(() => this.#replies.push(data));
    if (payload !== null && pending !== null) pending.reply = this.#checked(() => pending.read(payload));
    if (this.#replies.dropped.bytes - this.#foreignAtCall > MOST_FOREIGN) this.#broken('it is flooded');
  }

  /** Ends the waiting for a reply. All output before it has come before it. */
  #settle(): void {
    const pending = this.#pending;
    if (pending === null) return;
    if (this.#record !== null || this.#fault !== null || pending.reply !== null) pending.settle();
  }

  #checked<T>(read: () => T): T | null {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof MalformedReply)) throw error;
      this.#broken(error.message);
      return null;
    }
  }

  /** Its channel can't be trusted with another call. */
  #broken(why: string): void {
    if (this.#record !== null || this.#lost !== null) return;
    this.#fault ??= why;
    this.execution.requestKill();
    this.#pending?.settle();
  }
}
