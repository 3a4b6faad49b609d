/** A running command whose output is read as it comes. */

import type { ExecEvent, ExecHandle, ExecRecord, OutputStream } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import { shellStatus } from './result.ts';

/** The end of a streamed command. */
export interface StreamResult extends ExecRecord {
  /** Exit status 0. */
  readonly ok: boolean;
  /** As a shell reports it; see `ExecResult.exitCode`. */
  readonly exitCode: number;
}

/** One event of a streamed command; `ended` is the last one. */
export type StreamEvent =
  | {
      readonly type: 'output';
      readonly stream: OutputStream;
      /** Position of the first byte within its stream. */
      readonly offset: number;
      readonly data: Uint8Array;
      /** The same as text. A character that is cut between two events comes whole with the second. */
      readonly text: string;
    }
  /** Bytes `from` to `to` were dropped, because nobody read them in time and `overflow` is `drop`. */
  | { readonly type: 'gap'; readonly stream: OutputStream; readonly from: number; readonly to: number }
  | { readonly type: 'ended'; readonly result: StreamResult };

type Decoders = Readonly<Record<OutputStream, InstanceType<typeof TextDecoder>>>;

/** What a stream does beside giving events. */
export interface StreamBehaviour {
  readonly signal?: AbortSignal | undefined;
  /** What leaving the loop early does to the command. */
  readonly leaving: 'kill' | 'detach';
  /** Says a failure in the caller's words. */
  readonly explain?: ((error: unknown) => unknown) | undefined;
}

/**
 * Iterate it once to get the events; a reader that is slow makes the command wait. Leaving the loop early kills a command
 * of `stream`, and leaves one of `attach` running. Without a loop, awaiting `result` reads the output and drops it.
 */
export class ExecStream implements AsyncIterable<StreamEvent>, AsyncDisposable {
  readonly #start: Promise<ExecHandle>;
  readonly #behaviour: StreamBehaviour;
  readonly #ended = Promise.withResolvers<StreamResult>();
  #iterated = false;

  constructor(start: Promise<ExecHandle>, behaviour: StreamBehaviour) {
    this.#start = start;
    this.#behaviour = behaviour;
    // Both failures reach whoever iterates, asks for the result or calls a method; nobody has to.
    start.catch((): undefined => undefined);
    this.#ended.promise.catch((): undefined => undefined);
  }

  /** Resolves with the id of the exec when the command has started. Errors: as of `exec`. */
  get started(): Promise<string> {
    return this.#start.then((handle) => handle.exec_id);
  }

  /** Resolves when the command has ended and nothing of it is alive. */
  get result(): Promise<StreamResult> {
    if (!this.#iterated) void this.#drain();
    return this.#ended.promise;
  }

  /** Writes to standard input; resolves when the bytes are handed on. Needs `stdin: 'stream'`. Errors: `exec_ended`, `stdin_closed`. */
  async write(data: string | Uint8Array): Promise<void> {
    const handle = await this.#start;
    await handle.write(typeof data === 'string' ? new TextEncoder().encode(data) : data);
  }

  async closeStdin(): Promise<void> {
    const handle = await this.#start;
    await handle.closeStdin();
  }

  /** Sends a signal, by name or number, to the command's process group. Errors: `exec_ended`. */
  async signal(signal: string | number): Promise<void> {
    const handle = await this.#start;
    await handle.signal(signal);
  }

  /** Kills everything that the command started; resolves when nothing of it is alive. One that has ended is fine. */
  async kill(): Promise<void> {
    const handle = await this.#start;
    try {
      await handle.kill();
    } catch (error) {
      if (!(error instanceof BoxkiteFailure) || error.code !== 'exec_ended') throw error;
    }
  }

  /** Changes the size of the terminal. */
  async resize(columns: number, rows: number): Promise<void> {
    const handle = await this.#start;
    await handle.resize(columns, rows);
  }

  [Symbol.asyncIterator](): AsyncIterator<StreamEvent> {
    if (this.#iterated) throw new TypeError('the events of a command can be read once');
    this.#iterated = true;
    return this.#events();
  }

  /** Writes all of a source and closes the input; a command that ends first is fine. Errors: those of the source and of `write`. */
  async feed(source: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const part of source) await this.write(part);
      await this.closeStdin();
    } catch (error) {
      if (error instanceof BoxkiteFailure && (error.code === 'exec_ended' || error.code === 'stdin_closed')) return;
      throw error;
    }
  }

  /** Kills the command of `stream`, where it still runs; leaves one of `attach` running. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#behaviour.leaving === 'kill') await this.kill();
  }

  async *#events(): AsyncGenerator<StreamEvent, void, undefined> {
    let ended = false;
    try {
      const handle = await this.#start;
      const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
      for await (const event of handle) {
        if (event.type === 'ended') {
          ended = true;
          this.#settle(event.record);
        }
        yield* translate(event, decoders);
      }
    } catch (failure) {
      ended = true;
      const error = this.#behaviour.explain?.(failure) ?? failure;
      this.#ended.reject(error);
      throw error;
    } finally {
      if (!ended) await this.#abandon();
    }
  }

  #settle(record: ExecRecord): void {
    const { signal, leaving } = this.#behaviour;
    if (signal?.aborted !== true || leaving === 'detach') {
      this.#ended.resolve(streamResult(record));
      return;
    }
    throw new BoxkiteError('aborted', 'the command was cancelled and nothing of it runs', { cause: signal.reason });
  }

  /** The loop was left early. */
  async #abandon(): Promise<void> {
    if (this.#behaviour.leaving === 'detach') {
      this.#ended.reject(new BoxkiteError('aborted', 'the loop over the command was left, and the command runs on'));
      return;
    }
    this.#ended.reject(new BoxkiteError('aborted', 'the loop over the command was left, and the command killed'));
    await this.kill();
  }

  async #drain(): Promise<void> {
    try {
      for await (const event of this) void event;
    } catch (error) {
      this.#ended.reject(error);
    }
  }
}

/** Events of a port as callers get them. */
export async function* streamEvents(events: AsyncIterable<ExecEvent>): AsyncGenerator<StreamEvent, void, undefined> {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const event of events) yield* translate(event, decoders);
}

function* translate(event: ExecEvent, decoders: Decoders): Generator<StreamEvent, void, undefined> {
  if (event.type === 'output') {
    yield { ...event, text: decoders[event.stream].decode(event.data, { stream: true }) };
    return;
  }
  if (event.type === 'gap') {
    // What follows a gap doesn't continue the character before it.
    yield* rest(decoders, event.stream, event.from);
    yield event;
    return;
  }
  yield* rest(decoders, 'stdout', event.record.stdout_bytes);
  yield* rest(decoders, 'stderr', event.record.stderr_bytes);
  yield { type: 'ended', result: streamResult(event.record) };
}

/** The text of a character that was cut off, as U+FFFD. */
function* rest(decoders: Decoders, stream: OutputStream, offset: number): Generator<StreamEvent, void, undefined> {
  const text = decoders[stream].decode();
  if (text !== '') yield { type: 'output', stream, offset, data: new Uint8Array(0), text };
}

function streamResult(record: ExecRecord): StreamResult {
  return { ...record, ok: record.end === 'exited' && record.exit_code === 0, exitCode: shellStatus(record) };
}
