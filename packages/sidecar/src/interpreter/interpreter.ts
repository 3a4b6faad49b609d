/** The interpreter of a session: at most one, which keeps what code has made for the code after it. */
import { randomUUID } from 'node:crypto';
import { BoxkiteError, type Effective } from '@boxkite/protocol';
import { z } from 'zod';
import type { Budget } from '../session/budget.ts';
import { generationGone } from '../session/generation.ts';
import type { SessionCore, SessionPart } from '../session/part.ts';
import { answerOf, type InterpreterAnswer } from './answer.ts';
import { type Ending, type InterpreterLimits, InterpreterProcess } from './process.ts';

const keptSchema = z.object({ exec_id: z.string(), started_at: z.string(), interrupts: z.number() });

/** What of the present interpreter the next process of the session has to know. */
type Kept = z.output<typeof keptSchema>;

/** One piece of code. */
export interface InterpreterCall {
  readonly code: string;
  readonly timeoutSeconds: number;
  /** Aborted: its caller is gone. */
  readonly signal?: AbortSignal | undefined;
}

/** What there is of an interpreter. */
export interface InterpreterStatus {
  readonly running: boolean;
  /** ISO 8601; `null` where none runs. */
  readonly started_at: string | null;
  /** Since the end of its last call, to a tenth; 0 while one runs, `null` where none runs. */
  readonly idle_seconds: number | null;
  /** Whether it runs code. */
  readonly busy: boolean;
  /** `null` where none runs. */
  readonly python_version: string | null;
  /** In this use, what was on the channel and was no reply to the call that waited: forged ones, and late ones. */
  readonly dropped: { readonly messages: number; readonly bytes: number };
  /** Measured when it was started; `null` where none runs. */
  readonly effective: Effective | null;
}

/** As lists of allowed commands name it. */
const PROGRAM = 'python3';
/** Calls that wait for the one that runs. */
const MOST_WAITING = 64;
const MIB = 1024 * 1024;

interface Slot {
  readonly process: InterpreterProcess;
  readonly startedAt: string;
  readonly version: string;
}

/** See the top. Calls are serialised; one that ends the interpreter leaves a new one to the next call. */
export class Interpreter implements SessionPart {
  readonly #core: SessionCore;
  readonly #budget: Budget;
  #slot: Slot | null = null;
  /** What runs, from before it serves. */
  #process: InterpreterProcess | null = null;
  #launching: Promise<unknown> = Promise.resolve();
  /** Until it is known what became of the one that an earlier process left. */
  #finding: Promise<void> | null = null;
  /** What is known of that one until then. */
  #found: Kept | null = null;
  #line: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #busy = false;
  #lastEnd = performance.now();
  #idle: NodeJS.Timeout | null = null;
  #isSpent = false;
  /** By interpreters that have ended. */
  #dropped = { messages: 0, bytes: 0 };
  /** How callers that wait are told that this process stops; what they waited for goes with them. */
  readonly #leaving = new Set<(error: BoxkiteError) => void>();
  #isClosed = false;

  constructor(core: SessionCore, budget: Budget) {
    this.#core = core;
    this.#budget = budget;
    const found = keptSchema.safeParse(core.found('interpreter'));
    if (!found.success) return;
    this.#found = found.data;
    this.#finding = this.#find(found.data);
  }

  kept(): Kept | undefined {
    const process = this.#process;
    if (this.#found !== null) return { ...this.#found, interrupts: process?.interrupts ?? this.#found.interrupts };
    if (process === null) return undefined;
    const started_at = this.#slot?.startedAt ?? new Date().toISOString();
    return { exec_id: process.execution.exec_id, started_at, interrupts: process.interrupts };
  }

  /**
   * Runs code after that of all calls before it. What becomes of it is in the answer; only what keeps it from being tried
   * is an error: `command_not_allowed`, `session_budget_exceeded`, `capacity`, `generation_gone`, `command_not_found` where
   * there is no Python, `state_unavailable` when this process stops.
   */
  async run(call: InterpreterCall): Promise<InterpreterAnswer> {
    this.#core.gate.admitProgram(PROGRAM);
    return this.#budget.run(() => this.#inTurn(call));
  }

  #inTurn(call: InterpreterCall): Promise<InterpreterAnswer> {
    if (this.#isClosed) throw stopping();
    if (this.#waiting >= MOST_WAITING) {
      throw new BoxkiteError('capacity', `${MOST_WAITING} calls wait for the interpreter`, {
        details: { limit: 'interpreter calls' },
      });
    }
    const use = this.#core.use();
    this.#waiting += 1;
    const turn = this.#line.then(() => {
      this.#waiting -= 1;
      return this.#turn(call, use);
    });
    this.#line = turn.then(nothing, nothing);
    return new Promise((resolve, reject) => {
      this.#leaving.add(reject);
      turn.then(resolve, reject).finally(() => this.#leaving.delete(reject));
    });
  }

  /** Whether it runs code. */
  get isBusy(): boolean {
    return this.#busy;
  }

  async status(): Promise<InterpreterStatus> {
    await this.#finding;
    const slot = this.#live();
    const dropped = this.#process?.dropped ?? { messages: 0, bytes: 0 };
    const before = this.#dropped;
    const idle = this.#busy ? 0 : Math.round((performance.now() - this.#lastEnd) / 100) / 10;
    return {
      running: slot !== null,
      started_at: slot?.startedAt ?? null,
      idle_seconds: slot === null ? null : idle,
      busy: this.#busy,
      python_version: slot?.version ?? null,
      dropped: { messages: before.messages + dropped.messages, bytes: before.bytes + dropped.bytes },
      effective: slot?.process.execution.effective ?? null,
    };
  }

  /** Ends the interpreter and the call that it is in; resolves when nothing of it is alive. */
  async end(): Promise<void> {
    await this.#finding;
    await this.#launching;
    const process = this.#process;
    this.#forget();
    await process?.kill('reset');
  }

  async reset(): Promise<void> {
    await this.end();
    this.#isSpent = false;
    this.#dropped = { messages: 0, bytes: 0 };
  }

  async spent(): Promise<void> {
    this.#isSpent = true;
    await this.end();
  }

  /** It goes on: the next process of the session finds it. */
  close(): void {
    this.#isClosed = true;
    if (this.#idle !== null) clearTimeout(this.#idle);
    for (const leave of this.#leaving) leave(stopping());
  }

  async #turn(call: InterpreterCall, use: number): Promise<InterpreterAnswer> {
    await this.#finding;
    if (this.#isClosed) throw stopping();
    if (this.#core.use() !== use) throw generationGone();
    if (this.#isSpent) throw new BoxkiteError('session_budget_exceeded', 'the budget of the session is spent');
    if (call.signal?.aborted === true) throw new BoxkiteError('aborted', 'the caller has left');
    this.#busy = true;
    try {
      return await this.#call(call, performance.now());
    } finally {
      this.#busy = false;
      this.#lastEnd = performance.now();
      this.#endWhenIdle();
    }
  }

  async #call(call: InterpreterCall, from: number): Promise<InterpreterAnswer> {
    const { code, timeoutSeconds, signal } = call;
    const before = this.#live();
    const started = before ?? (await this.#start());
    const slot = 'ending' in started ? null : started;
    const ending =
      'ending' in started
        ? started.ending
        : await started.process.run(code, { timeoutMs: timeoutSeconds * 1000, signal });
    // The next process has to know which of them have arrived.
    if (ending.reply !== null && ending.stopped !== null) await this.#core.save();
    if (ending.reply === null && this.#process === (slot?.process ?? this.#process)) this.#forget();
    return answerOf({
      ending,
      started: slot !== null,
      timeoutSeconds,
      memoryMb: this.#limits.memoryMb,
      outputBytes: this.#limits.outputBytes,
      redaction: this.#core.redaction,
      fresh: before === null,
      executionId: randomUUID(),
      durationMs: Math.round(performance.now() - from),
    });
  }

  /** The interpreter that serves, if it can still run something. */
  #live(): Slot | null {
    if (this.#slot?.process.isOver === true) this.#forget();
    return this.#slot;
  }

  #forget(): void {
    const { messages, bytes } = this.#process?.dropped ?? { messages: 0, bytes: 0 };
    this.#dropped = { messages: this.#dropped.messages + messages, bytes: this.#dropped.bytes + bytes };
    this.#slot = null;
    this.#process = null;
  }

  async #start(): Promise<Slot | { readonly ending: Ending }> {
    const { runner, sandbox, settings } = this.#core;
    const launching = InterpreterProcess.start(runner, sandbox, this.#limits);
    this.#launching = launching.catch(nothing);
    const process = await launching;
    this.#process = process;
    const hello = await process.hello(settings.interpreter.startupSeconds * 1000);
    if (hello === null) return { ending: await process.failure() };
    const slot = { process, startedAt: new Date().toISOString(), version: hello.version };
    // Another one may have ended it meanwhile, which its first call finds out.
    if (this.#process === process) {
      this.#slot = slot;
      // Before anybody relies on its state: the next process has to find it.
      await this.#core.save();
    }
    return slot;
  }

  async #find({ exec_id: execId, started_at, interrupts }: Kept): Promise<void> {
    const { runner } = this.#core;
    try {
      const process = await InterpreterProcess.find(runner, { execId, interrupts }, this.#limits);
      this.#process = process;
      const hello = await process.calm();
      if (hello === null) {
        await process.kill();
        this.#forget();
      } else {
        this.#slot = { process, startedAt: started_at, version: hello.version };
        this.#endWhenIdle();
      }
    } catch {
      // It has ended, or the runner has: there is none.
      this.#forget();
    } finally {
      this.#found = null;
      this.#finding = null;
    }
  }

  /** Asks for what the machine can enforce; a control group bounds all that code starts, too. */
  get #limits(): InterpreterLimits {
    const { outputBytes, memoryMb } = this.#core.settings.interpreter;
    const { via, bytes } = this.#core.effective.memory;
    if (via === 'none' || bytes === null) return { outputBytes, memoryMb: null, dataMb: memoryMb };
    return { outputBytes, memoryMb: Math.min(memoryMb, Math.floor(bytes / MIB)), dataMb: null };
  }

  /** Its clock starts anew with the end of each call; one that runs out within a call ends nothing. */
  #endWhenIdle(): void {
    if (this.#slot === null || this.#isClosed) return;
    if (this.#idle !== null) {
      this.#idle.refresh();
      return;
    }
    this.#idle = setTimeout(() => {
      if (!this.#busy && this.#waiting === 0) void this.end().catch(nothing);
    }, this.#core.settings.interpreter.idleSeconds * 1000).unref();
  }
}

/** The exec that an earlier process of the session has left as its interpreter, by what it kept. */
export function keptInterpreter(kept: unknown): string | null {
  const found = keptSchema.safeParse(kept);
  return found.success ? found.data.exec_id : null;
}

function stopping(): BoxkiteError {
  return new BoxkiteError('state_unavailable', 'the process that holds the interpreter stops');
}

function nothing(): void {
  // Its caller is told by the call itself.
}
