import type { Buffer } from 'node:buffer';
import {
  BoxkiteError,
  type Effective,
  type ExecEvent,
  type ExecHandle,
  maxTerminalSize,
  spoolBytes,
} from '@boxkite/protocol';
import type { Ended, Gap } from './answers.ts';
import type { Connection, EventConsumer } from './connection.ts';
import { FrameError, FrameType } from './frames.ts';
import { encodeResize, encodeSignal } from './operations.ts';
import { recordOf } from './record.ts';
import { signalNumber } from './signals.ts';
import type { StdinWriter } from './stdin.ts';

/** Consumed bytes of one stream that are committed at once, without waiting for the idle timer: a quarter of the spool. */
const COMMIT_BYTES = spoolBytes / 4;

/** How far one stream of an exec has come, in bytes. */
interface StreamState {
  /** End of what has arrived. */
  received: number;
  /** End of what the consumer is done with. */
  consumed: number;
  committed: number;
  /** Where the record stops keeping bytes. */
  readonly cap: number;
}

/** What a handle starts from. */
export interface ExecutionStart {
  readonly exec: bigint;
  readonly effective: Effective;
  readonly stdoutFrom: number;
  readonly stderrFrom: number;
  /** Bytes kept per stream; the rest is taken from the command and reported as one gap. `undefined`: all. */
  readonly outputBytes: number | undefined;
  readonly stdin: StdinWriter | null;
  readonly commits?: CommitMode | undefined;
}

/**
 * Who says that bytes need no repetition: the handle, when its consumer has taken them (`consumed`), or its holder by
 * `commit` and `release` (`caller`), who then gets everything again after his own end.
 */
export type CommitMode = 'consumed' | 'caller';

interface Waiter {
  resolve(result: IteratorResult<ExecEvent, undefined>): void;
  reject(error: BoxkiteError): void;
}

const DONE: IteratorResult<ExecEvent, undefined> = { done: true, value: undefined };

/**
 * A started exec on a runner's connection. It has one sequence of events: every iterator continues where the last one
 * stopped, and leaving a loop neither ends the command nor loses events. An event counts as consumed when the next one
 * is asked for; what is not consumed stays in the runner, which stops the command when its spool is full.
 */
export class RunnerExecution implements ExecHandle, EventConsumer {
  readonly exec_id: string;
  readonly effective: Effective;
  readonly #connection: Connection;
  readonly #exec: bigint;
  readonly #stdin: StdinWriter | null;
  readonly #stdout: StreamState;
  readonly #stderr: StreamState;
  #queue: ExecEvent[] = [];
  #head = 0;
  #waiters: Waiter[] = [];
  /** The event that was given out last and counts as consumed at the next call. */
  #inHand: ExecEvent | null = null;
  #ended = false;
  #finished = false;
  #failure: BoxkiteError | null = null;
  /** Set by a kill: what arrives is taken off the runner at once, so that the end is not behind a full spool. */
  #draining = false;
  #discarding = false;
  #spoiled: BoxkiteError | null = null;
  #commits: CommitMode;
  #onEnd: ((error: BoxkiteError | null) => void)[] = [];

  constructor(connection: Connection, start: ExecutionStart) {
    this.exec_id = start.exec.toString();
    this.effective = start.effective;
    this.#connection = connection;
    this.#exec = start.exec;
    this.#stdin = start.stdin;
    this.#commits = start.commits ?? 'consumed';
    const cap = start.outputBytes ?? Number.MAX_SAFE_INTEGER;
    this.#stdout = { received: start.stdoutFrom, consumed: start.stdoutFrom, committed: start.stdoutFrom, cap };
    this.#stderr = { received: start.stderrFrom, consumed: start.stderrFrom, committed: start.stderrFrom, cap };
  }

  [Symbol.asyncIterator](): AsyncIterator<ExecEvent, undefined> {
    return { next: () => this.#next() };
  }

  /** Rejects `stdin_closed` where the exec has no input stream, or it was closed by either side. */
  write(data: Uint8Array): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== null) return Promise.reject(refusal);
    if (this.#stdin === null) return Promise.reject(noStdin());
    return this.#stdin.write(data);
  }

  /** Resolves when the end of file is handed on; closing twice, or after the end, is no error. */
  closeStdin(): Promise<void> {
    if (this.#ended || this.#stdin === null) return Promise.resolve();
    return this.#stdin.close();
  }

  async signal(signal: string | number): Promise<void> {
    const number = signalNumber(signal);
    const refusal = this.#refusal();
    if (refusal !== null) throw refusal;
    await this.#connection.request((request) => encodeSignal(request, this.#exec, number, 0), FrameType.done, nothing);
  }

  kill(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.whenEnded((error) => (error === null ? resolve() : reject(error)));
      this.requestKill();
    });
  }

  async resize(columns: number, rows: number): Promise<void> {
    for (const [field, size] of [
      ['columns', columns],
      ['rows', rows],
    ] as const) {
      if (!Number.isInteger(size) || size < 1 || size > maxTerminalSize) {
        throw new BoxkiteError('invalid_request', `${field} is not a terminal size`, { details: { field } });
      }
    }
    const refusal = this.#refusal();
    if (refusal !== null) throw refusal;
    await this.#connection.request(
      (request) => encodeResize(request, this.#exec, columns, rows),
      FrameType.done,
      nothing,
    );
  }

  /** Why it did not get all that it was given, where that is why it was killed. */
  get spoiled(): BoxkiteError | null {
    return this.#spoiled;
  }

  /** With `commits: 'caller'`: bytes before these offsets are never needed again. */
  commit(stdout: number, stderr: number): void {
    this.#connection.commit(this.#exec, stdout, stderr, false);
  }

  /** With `commits: 'caller'`, after the end: nothing of the exec is ever needed again. */
  release(): void {
    this.#connection.commit(this.#exec, this.#stdout.received, this.#stderr.received, true);
  }

  /** Calls back once: with `null` when the exec has ended, with the error when the runner is lost. */
  whenEnded(callback: (error: BoxkiteError | null) => void): void {
    if (this.#ended || this.#failure !== null) callback(this.#ended ? null : this.#failure);
    else this.#onEnd.push(callback);
  }

  /** Asks for the kill of the envelope; `whenEnded` tells when it is dead. */
  requestKill(): void {
    if (this.#ended || this.#failure !== null || this.#draining) return;
    this.#draining = true;
    this.#drain(this.#stdout);
    this.#drain(this.#stderr);
    this.commitNow();
    // An error says that it is gone already: its end is on the way.
    this.#connection.call((request) => encodeSignal(request, this.#exec, signalNumber('SIGKILL'), 1), {
      expects: FrameType.done,
      answer: nothing,
      fail: nothing,
    });
  }

  /** Kills an exec that nobody will iterate: its events are dropped as they come. */
  discard(): void {
    this.#discarding = true;
    this.#commits = 'consumed';
    this.#queue = [];
    this.#head = 0;
    if (this.#ended && !this.#finished) {
      this.#finished = true;
      this.release();
    }
    this.requestKill();
  }

  /** Kills an exec that did not get what it was given; when it is dead the handle rejects with `error` instead of a record. */
  spoil(error: BoxkiteError): void {
    this.#spoiled = error;
    this.requestKill();
  }

  output(stream: 1 | 2, offset: number, data: Buffer): void {
    const state = stream === 1 ? this.#stdout : this.#stderr;
    if (offset !== state.received) throw new FrameError('output is not continuous');
    state.received = offset + data.length;
    if (state.received > state.cap) {
      this.#beyondCap(stream, state, offset, data);
      return;
    }
    this.#emit({ type: 'output', stream: stream === 1 ? 'stdout' : 'stderr', offset, data });
    if (this.#draining) this.#drain(state);
  }

  gap(gap: Gap): void {
    const state = gap.stream === 1 ? this.#stdout : this.#stderr;
    if (gap.from !== state.received) throw new FrameError('a gap is not continuous');
    state.received = gap.to;
    // Beyond the cap it becomes a part of the one gap at the end.
    if (gap.from >= state.cap) state.consumed = gap.to;
    else this.#emit({ type: 'gap', stream: gap.stream === 1 ? 'stdout' : 'stderr', from: gap.from, to: gap.to });
  }

  ended(ended: Ended): void {
    if (this.#spoiled !== null && this.#commits === 'consumed') {
      this.release();
      this.fail(this.#spoiled);
      return;
    }
    const record = recordOf(ended, this.exec_id, this.effective);
    this.#emitCapGap('stdout', this.#stdout);
    this.#emitCapGap('stderr', this.#stderr);
    this.#ended = true;
    this.#stdin?.end();
    this.#emit({ type: 'ended', record });
    this.#settle(null);
  }

  fail(error: BoxkiteError): void {
    this.#failure = error;
    this.#stdin?.end();
    const [first, ...others] = this.#waiters;
    this.#waiters = [];
    if (first !== undefined) {
      this.#finished = true;
      first.reject(error);
      for (const waiter of others) waiter.resolve(DONE);
    }
    this.#settle(error);
  }

  commitNow(): void {
    const { consumed: stdout, committed: stdoutDone } = this.#stdout;
    const { consumed: stderr, committed: stderrDone } = this.#stderr;
    if (this.#finished || this.#commits === 'caller' || (stdout === stdoutDone && stderr === stderrDone)) return;
    this.#stdout.committed = stdout;
    this.#stderr.committed = stderr;
    this.#connection.commit(this.#exec, stdout, stderr, false);
  }

  #next(): Promise<IteratorResult<ExecEvent, undefined>> {
    this.#consume();
    const event = this.#queue[this.#head];
    if (event !== undefined) {
      this.#head += 1;
      if (this.#head === this.#queue.length) {
        this.#queue = [];
        this.#head = 0;
      }
      this.#give(event);
      return Promise.resolve({ done: false, value: event });
    }
    if (this.#finished) return Promise.resolve(DONE);
    if (this.#failure !== null) {
      this.#finished = true;
      return Promise.reject(this.#failure);
    }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
    });
  }

  #emit(event: ExecEvent): void {
    if (this.#discarding) {
      if (event.type === 'ended') this.#give(event);
      return;
    }
    const waiter = this.#waiters.shift();
    if (waiter === undefined) {
      this.#queue.push(event);
      return;
    }
    this.#give(event);
    waiter.resolve({ done: false, value: event });
    if (event.type === 'ended') {
      for (const other of this.#waiters) other.resolve(DONE);
      this.#waiters = [];
    } else if (this.#waiters.length > 0) {
      this.#consume();
    }
  }

  #give(event: ExecEvent): void {
    if (event.type !== 'ended') {
      this.#inHand = event;
      return;
    }
    this.#finished = true;
    if (this.#commits === 'consumed') this.release();
  }

  /** The event given out last is done with. */
  #consume(): void {
    const event = this.#inHand;
    if (event === null || event.type === 'ended') return;
    this.#inHand = null;
    const state = event.stream === 'stdout' ? this.#stdout : this.#stderr;
    const end = event.type === 'output' ? event.offset + event.data.length : event.to;
    this.#consumedUpTo(state, Math.max(end, state.consumed));
  }

  #drain(state: StreamState): void {
    this.#consumedUpTo(state, state.received);
  }

  #consumedUpTo(state: StreamState, end: number): void {
    state.consumed = end;
    // After the end only its own commit matters: it frees all at once.
    if (this.#ended || end === state.committed || this.#commits === 'caller') return;
    if (end - state.committed >= COMMIT_BYTES) this.commitNow();
    else this.#connection.commitSoon(this);
  }

  #beyondCap(stream: 1 | 2, state: StreamState, offset: number, data: Buffer): void {
    const kept = Math.max(0, state.cap - offset);
    if (kept > 0) {
      this.#emit({ type: 'output', stream: stream === 1 ? 'stdout' : 'stderr', offset, data: data.subarray(0, kept) });
    }
    // The runner frees a stream only from its start, so the kept bytes are committed too and live in this queue alone.
    if (kept === 0) this.#drain(state);
  }

  #emitCapGap(stream: 'stdout' | 'stderr', state: StreamState): void {
    if (state.received > state.cap) this.#emit({ type: 'gap', stream, from: state.cap, to: state.received });
  }

  #refusal(): BoxkiteError | null {
    if (this.#ended)
      return new BoxkiteError('exec_ended', 'the command has ended', { details: { exec_id: this.exec_id } });
    return this.#failure;
  }

  #settle(error: BoxkiteError | null): void {
    const callbacks = this.#onEnd;
    this.#onEnd = [];
    for (const callback of callbacks) callback(error);
  }
}

function nothing(): void {
  // The answer has no content, or the end of the exec tells the rest.
}

function noStdin(): BoxkiteError {
  return new BoxkiteError('stdin_closed', 'the command was started without an input stream');
}
