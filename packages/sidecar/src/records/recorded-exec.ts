/** One exec and its record: takes what the runner tells of it, redacts, logs and keeps it. */
import {
  BoxkiteError,
  type Effective,
  type ExecEvent,
  type ExecRecord,
  type ExecSummary,
  type OutputStream,
  spoolBytes,
} from '@boxkite/protocol';
import { letGo, own, type RunnerExecution } from '@boxkite/runner-client';
import type { Collector } from './collector.ts';
import type { ExecLog } from './exec-log.ts';
import { type ExecStorage, STREAMS } from './exec-storage.ts';
import type { StartMeta } from './meta.ts';
import type { RawStream } from './raw-stream.ts';

/** Bytes in memory from which on they are written to a file, and the runner need not keep them. */
const FLUSH_BYTES = 64 * 1024;
/** The same for a log that has become long: fewer, larger writes. A quarter of what the runner keeps. */
const LONG_FLUSH_BYTES = spoolBytes / 4;
const LONG_BYTES = 1024 * 1024;
/** What is redacted at once where a reader must not lose any of it. */
const BLOCK_PIECE_BYTES = 256 * 1024;
/** An exec whose time is over is not kept from its end by a log that nobody reads. */
const DEADLINE_GRACE_MS = 250;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5000;

/** What a recorded exec is made of. */
export interface RecordedExecParts {
  readonly meta: StartMeta;
  readonly effective: Effective;
  readonly log: ExecLog;
  readonly storage: ExecStorage;
  readonly raw: Readonly<Record<OutputStream, RawStream>> | null;
  /** Takes all output for the answer of a collected exec. */
  readonly collectors?: Readonly<Record<OutputStream, Collector>> | undefined;
  /** Called once, when the end is told. */
  readonly onEnd: (exec: RecordedExec) => void;
}

/** An exec that runs, or has ended. */
export class RecordedExec {
  readonly meta: StartMeta;
  readonly log: ExecLog;
  readonly storage: ExecStorage;
  readonly #parts: RecordedExecParts;
  /** Made for those who ask before there is a handle. */
  #execution: PromiseWithResolvers<RunnerExecution> | null = null;
  readonly #ended = Promise.withResolvers<ExecRecord>();
  readonly #kept = Promise.withResolvers<void>();
  #attached: RunnerExecution | null = null;
  #flushing: Record<OutputStream, Promise<void> | null> = { stdout: null, stderr: null };
  #safe: Record<OutputStream, number> = { stdout: 0, stderr: 0 };
  /** Nobody is waited for: it was killed, or its time is over. */
  #draining = false;
  #stopped = false;
  #deadline: NodeJS.Timeout | null = null;

  constructor(parts: RecordedExecParts) {
    this.meta = parts.meta;
    this.log = parts.log;
    this.storage = parts.storage;
    this.#parts = parts;
    // Whoever needs it asks; an exec that is lost before it is attached has nobody who does.
    this.#ended.promise.catch(ignore);
  }

  /** The handle on the runner's connection, as soon as there is one. Rejects `exec_ended` after the end. */
  async execution(): Promise<RunnerExecution> {
    if (this.log.record !== null) throw endedError(this.meta.exec_id);
    if (this.log.failure !== null) throw this.log.failure;
    if (this.#attached !== null) return this.#attached;
    this.#execution ??= Promise.withResolvers();
    return this.#execution.promise;
  }

  /** Resolves with the record when the end is told. */
  get ended(): Promise<ExecRecord> {
    return this.#ended.promise;
  }

  /** Resolves when the end survives this process, or the first try failed. */
  get kept(): Promise<void> {
    return this.#kept.promise;
  }

  /** Whether a call waits for its end and all of its output. */
  get isAttended(): boolean {
    return this.#parts.collectors !== undefined;
  }

  get summary(): ExecSummary {
    const { exec_id, argv, cwd, tty, started_at } = this.meta;
    const { record, stdout, stderr } = this.log;
    return {
      exec_id,
      state: record === null ? 'running' : 'ended',
      argv,
      cwd,
      tty,
      started_at,
      ended_at: record === null ? null : endedAt(started_at, record),
      stdout_bytes: stdout.end,
      stderr_bytes: stderr.end,
      record,
    };
  }

  /** Goes on from what the runner tells through this handle, until the end. */
  attach(execution: RunnerExecution): void {
    this.#attached = execution;
    this.#execution?.resolve(execution);
    const { deadline } = this.meta;
    if (deadline !== null && this.meta.block) this.#armDeadline(deadline);
    void this.#pump(execution);
  }

  /** It was found ended. */
  settle(record: ExecRecord): void {
    this.log.end(record);
    this.#ended.resolve(record);
    this.#kept.resolve();
  }

  /** Kills the envelope; resolves at the end. */
  async kill(): Promise<void> {
    if (this.log.record !== null) return;
    this.drain();
    // One that is never attached is told its end, or its failure, all the same.
    this.execution().then((execution) => execution.requestKill(), ignore);
    await this.#ended.promise;
  }

  /** From now on no reader is waited for. */
  drain(): void {
    this.#draining = true;
    this.log.moved(false);
  }

  /** This process stops: nothing more is taken. Resolves when what was taken is written; the runner keeps the rest. */
  async stop(error: BoxkiteError): Promise<void> {
    this.#stopped = true;
    this.#clearDeadline();
    this.drain();
    this.log.fail(error);
    this.#execution?.reject(error);
    this.#ended.reject(error);
    if (this.log.record !== null) return;
    for (const stream of STREAMS) {
      await this.#flushing[stream];
      if (this.log[stream].pending > 0) await this.#flushOnce(stream);
      await this.log[stream].file?.close();
    }
  }

  /** Nothing of it is to be kept any more. */
  abandon(): void {
    this.#stopped = true;
  }

  /** Its sandbox or its runner is gone and no end was told. */
  lose(record: Pick<ExecRecord, 'end' | 'reason'>): void {
    if (this.log.record === null && !this.#stopped) void this.#finish(this.#lostRecord(record), null);
  }

  async #pump(execution: RunnerExecution): Promise<void> {
    const events = execution[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { value, done } = await events.next();
        if (done === true || this.#stopped || this.log.record !== null) return;
        if (value.type === 'ended') {
          await this.#finish({ ...value.record, exec_id: this.meta.exec_id }, execution);
          return;
        }
        await this.#take(value);
        // The log holds what it has of it.
        if (value.type === 'output') letGo(value.data);
      }
    } catch (error) {
      // The runner is gone, and what it ran with it; after a fault of ours nothing may run on without a record.
      execution.discard();
      if (!this.#stopped && this.log.record === null)
        await this.#finish(this.#lostRecord({ end: 'lost', reason: null }), null, error);
    }
  }

  #take(event: Exclude<ExecEvent, { readonly type: 'ended' }>): Promise<void> | void {
    if (event.type === 'gap') return this.#gap(event.stream, event.from, event.to);
    const raw = this.#raw(event.stream);
    const data = raw.fresh(event.offset, event.data);
    if (this.meta.block) return this.#appendBlocking(event.stream, data);
    this.#append(event.stream, data);
  }

  async #appendBlocking(stream: OutputStream, data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length; at += BLOCK_PIECE_BYTES) {
      const piece = data.subarray(at, at + BLOCK_PIECE_BYTES);
      while (!this.#draining && this.#parts.collectors === undefined && !this.log.hasRoom(stream, piece.length)) {
        await this.log.whenReadersMove();
      }
      if (this.#stopped) return;
      this.#append(stream, piece);
    }
  }

  #append(stream: OutputStream, data: Uint8Array): void {
    if (data.length === 0) return;
    for (const part of this.#raw(stream).push(data)) this.#log(stream, part);
    if (this.#isFlushDue(stream)) this.#flush(stream);
  }

  #log(stream: OutputStream, part: Uint8Array): void {
    if (part.length === 0) return;
    this.log.append(stream, part);
    this.#parts.collectors?.[stream].push(own(part));
  }

  /** What a redactor that has failed still holds can't be shown to anybody, and is no reason to tell no end. */
  #logRest(stream: OutputStream): void {
    try {
      this.#log(stream, this.#raw(stream).flush());
    } catch {
      // The record says how many bytes there were.
    }
  }

  /** Bytes are missing that the runner could not keep. */
  async #gap(stream: OutputStream, from: number, to: number): Promise<void> {
    const raw = this.#raw(stream);
    if (to <= raw.received) return;
    const missing = to - Math.max(from, raw.told);
    await this.#flushing[stream];
    this.#log(stream, raw.flush(to));
    if (missing <= 0) return;
    // What came before stays addressable only where it is in a file.
    if (this.log[stream].pending > 0) await this.#flushOnce(stream);
    this.log.skip(stream, missing);
    this.#parts.collectors?.[stream].gap();
  }

  #isFlushDue(stream: OutputStream): boolean {
    const { pending, end } = this.log[stream];
    return pending >= (end < LONG_BYTES ? FLUSH_BYTES : LONG_FLUSH_BYTES);
  }

  /** Writes in the background what is only in memory, until little of it is left. */
  #flush(stream: OutputStream): void {
    this.#flushing[stream] ??= this.#flushAll(stream).finally(() => {
      this.#flushing[stream] = null;
    });
  }

  async #flushAll(stream: OutputStream): Promise<void> {
    while (this.#isFlushDue(stream) && !this.#stopped && this.log.record === null) {
      await this.#flushOnce(stream);
    }
  }

  async #flushOnce(stream: OutputStream): Promise<void> {
    const { end } = this.log[stream];
    const position = this.#raw(stream).position();
    try {
      this.#safe[stream] = await this.storage.flush(stream, () => this.#raw(stream).position());
    } catch {
      // Volume never stops a command: what can't be kept is a gap. Where nothing may be lost, the command waits.
      if (this.meta.block && !this.#draining) {
        await pause(FIRST_RETRY_MS);
        return;
      }
      this.log[stream].giveUp(end);
      this.#safe[stream] = position.raw;
    }
    this.#attached?.commit(this.#safe.stdout, this.#safe.stderr);
    this.log.trim();
  }

  async #finish(record: ExecRecord, execution: RunnerExecution | null, cause?: unknown): Promise<void> {
    this.#clearDeadline();
    for (const stream of STREAMS) this.#logRest(stream);
    this.log.end(record);
    this.#execution?.reject(endedError(this.meta.exec_id, cause));
    this.#ended.resolve(record);
    this.#parts.onEnd(this);
    for (let wait = FIRST_RETRY_MS; !this.#stopped; wait = Math.min(2 * wait, LAST_RETRY_MS)) {
      try {
        for (const stream of STREAMS) await this.#flushing[stream];
        await this.storage.finish(record, (stream) => this.#raw(stream).position());
        execution?.release();
        break;
      } catch {
        // The runner keeps it until it is written.
        this.#kept.resolve();
        await pause(wait);
      }
    }
    this.#kept.resolve();
  }

  #raw(stream: OutputStream): RawStream {
    const raw = this.#parts.raw?.[stream];
    if (raw === undefined) throw new BoxkiteError('internal', 'output of an exec that has ended');
    return raw;
  }

  #lostRecord({ end, reason }: Pick<ExecRecord, 'end' | 'reason'>): ExecRecord {
    const started = Date.parse(this.meta.started_at);
    return {
      exec_id: this.meta.exec_id,
      end,
      exit_code: null,
      signal: null,
      reason,
      stdout_bytes: this.#raw('stdout').received,
      stderr_bytes: this.#raw('stderr').received,
      duration_ms: Math.max(0, Date.now() - started),
      usage: { cpu_ms: null, memory_peak_bytes: null },
      effective: this.#parts.effective,
    };
  }

  #armDeadline(deadline: number): void {
    const wait = Math.max(0, deadline - Date.now()) + DEADLINE_GRACE_MS;
    // Longer ones would overflow the timer, and no process lives that long.
    if (wait < 2 ** 31) this.#deadline = setTimeout(() => this.drain(), wait).unref();
  }

  #clearDeadline(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = null;
  }
}

function endedError(execId: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('exec_ended', 'the command has ended', { details: { exec_id: execId }, cause });
}

function endedAt(startedAt: string, record: ExecRecord): string {
  return new Date(Date.parse(startedAt) + Math.round(record.duration_ms)).toISOString();
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

function ignore(): void {
  // Whoever waits for it gets the error.
}
