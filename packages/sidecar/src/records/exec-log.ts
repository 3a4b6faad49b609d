/** Both logs of one exec, and everybody who waits for more of them. */
import type { BoxkiteError, ExecRecord, OutputStream } from '@boxkite/protocol';
import { RECENT_BYTES, type StreamLog } from './stream-log.ts';

/** Somebody who reads a log as it grows. */
export interface Reader {
  /** Offset of each stream up to which its consumer has taken the bytes; infinite for a stream that it does not read. */
  readonly taken: Readonly<Record<OutputStream, number>>;
}

/** Half of a kept tail covers what a reader took and its own client has not got yet. */
const IN_FLIGHT_SHARE = 0.5;
/** With more readers, memory is not looked after at each of their steps. */
const FEW_READERS = 16;

/** The output of one exec. */
export class ExecLog {
  readonly stdout: StreamLog;
  readonly stderr: StreamLog;
  readonly #readers = new Set<Reader>();
  #record: ExecRecord | null = null;
  #failure: BoxkiteError | null = null;
  #order = 0;
  readonly #waiting = new Set<() => void>();
  #moved: PromiseWithResolvers<void> | null = null;

  constructor(stdout: StreamLog, stderr: StreamLog) {
    this.stdout = stdout;
    this.stderr = stderr;
  }

  /** Once set, both logs are complete. */
  get record(): ExecRecord | null {
    return this.#record;
  }

  /** Why its readers get no more of it. */
  get failure(): BoxkiteError | null {
    return this.#failure;
  }

  get readers(): number {
    return this.#readers.size;
  }

  append(stream: OutputStream, data: Uint8Array): void {
    this.#order += 1;
    this[stream].append(data, this.#order);
    this.#wake();
  }

  skip(stream: OutputStream, length: number): void {
    this[stream].skip(length);
    this.#wake();
  }

  end(record: ExecRecord): void {
    this.#record = record;
    this.#wake();
    this.#readersMoved();
  }

  /** Its readers are told this instead of more. */
  fail(error: BoxkiteError): void {
    this.#failure = error;
    this.#wake();
    this.#readersMoved();
  }

  /** Calls back once, when there is more to read, an end or a failure. */
  onChange(callback: () => void): void {
    this.#waiting.add(callback);
  }

  offChange(callback: () => void): void {
    this.#waiting.delete(callback);
  }

  join(reader: Reader): void {
    this.#readers.add(reader);
    this.#readersMoved();
  }

  leave(reader: Reader): void {
    this.#readers.delete(reader);
    this.trim();
    this.#readersMoved();
  }

  /** A reader has taken something; `atEnd` says that it waits for more. */
  moved(atEnd: boolean): void {
    if (atEnd && this.#readers.size <= FEW_READERS) this.trim();
    this.#readersMoved();
  }

  /** Lets go of what is stored and near no reader. */
  trim(): void {
    for (const stream of ['stdout', 'stderr'] as const) this[stream].trim(this.#lowest(stream) ?? Infinity);
  }

  /** Whether `length` more bytes may come without taking away what a reader, or the first one to come, still needs. */
  hasRoom(stream: OutputStream, length: number): boolean {
    const log = this[stream];
    const { head, tail } = log.window;
    const lowest = this.#lowest(stream);
    if (lowest === null) return log.end + length <= head + tail;
    // A reader that keeps up finds everything in memory.
    const ahead = Math.min(RECENT_BYTES, tail * (1 - IN_FLIGHT_SHARE));
    return log.end + length <= Math.max(lowest, head) + ahead;
  }

  /** Resolves when `hasRoom` may have changed. */
  whenReadersMove(): Promise<void> {
    this.#moved ??= Promise.withResolvers();
    return this.#moved.promise;
  }

  /** The reader of a stream that is farthest behind; `null` where nobody reads it. */
  #lowest(stream: OutputStream): number | null {
    let lowest: number | null = null;
    for (const { taken } of this.#readers) {
      if (taken[stream] !== Infinity && (lowest === null || taken[stream] < lowest)) lowest = taken[stream];
    }
    return lowest;
  }

  #readersMoved(): void {
    this.#moved?.resolve();
    this.#moved = null;
  }

  #wake(): void {
    if (this.#waiting.size === 0) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback();
  }
}
