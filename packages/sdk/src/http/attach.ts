/** An exec that is attached by a WebSocket: its output, and keys for its terminal. */
import type {
  Effective,
  ErrorBody,
  ExecEvent,
  ExecHandle,
  ExecSummary,
  ExecsPort,
  OutputRange,
  OutputStream,
} from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure, encodeAttachMessage, v1 } from '@boxkite/protocol';
import type { HttpClient } from './client.ts';
import type { Feed } from './feed.ts';
import type { Offsets, OutputSource } from './follow.ts';
import { followOutput } from './follow.ts';
import { execPath, withQuery } from './paths.ts';
import type { MessageChannel } from './transport.ts';

/** Bytes that the consumer has taken, or ms since it took some, until the server is told. */
const ACKNOWLEDGE_BYTES = 128 * 1024;
const ACKNOWLEDGE_MS = 10;
/** What may be wrong with a message; anything else that comes as a failure ended the output. */
const INPUT_FAILURES: ReadonlySet<string> = new Set(['exec_ended', 'stdin_closed', 'invalid_request']);
const KEYS_PIECE_BYTES = 64 * 1024;

/** What an attached exec is made of. */
export interface AttachParts {
  readonly client: HttpClient;
  readonly execs: ExecsPort;
  readonly sandbox: string;
  readonly summary: ExecSummary;
  readonly effective: Effective;
  readonly range: OutputRange;
  readonly signal: AbortSignal | undefined;
  /** Input that is written behind it. */
  readonly feed: Feed | undefined;
}

/**
 * Output goes on by offset after a cut. Input for a pipe is acknowledged call by call. Keys for a terminal go the short
 * way, in order with its size: of those that were under way when the connection was cut, some may not have arrived.
 */
export class AttachedExec implements ExecHandle {
  readonly exec_id: string;
  readonly effective: Effective;
  readonly #parts: AttachParts;
  /** Ends its connections. */
  readonly #signal: AbortSignal | undefined;
  #channel = Promise.withResolvers<MessageChannel>();
  #open: MessageChannel | null = null;
  #iterated = false;
  #ended: BoxkiteFailure | null = null;
  readonly #taken: Record<OutputStream, number>;
  /** Set where the command no longer takes keys. */
  #closed: BoxkiteError | null = null;
  #unsaid = 0;
  #telling: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: AttachParts) {
    this.#parts = parts;
    this.#signal = parts.feed?.bounded(parts.signal) ?? parts.signal;
    this.exec_id = parts.summary.exec_id;
    this.effective = parts.effective;
    this.#taken = { stdout: parts.range.stdout ?? 0, stderr: parts.range.stderr ?? 0 };
    this.#channel.promise.catch(() => undefined);
  }

  [Symbol.asyncIterator](): AsyncIterator<ExecEvent> {
    if (this.#iterated) throw new TypeError('the events of a command can be read once');
    this.#iterated = true;
    return this.#events();
  }

  async write(data: Uint8Array): Promise<void> {
    const { summary, execs } = this.#parts;
    if (!summary.tty) return execs.write(this.exec_id, data);
    if (this.#closed !== null) throw this.#closed;
    for (let at = 0; at < data.length; at += KEYS_PIECE_BYTES) {
      const message = encodeAttachMessage({ type: 'stdin', data: data.subarray(at, at + KEYS_PIECE_BYTES) });
      await this.#send(message);
    }
  }

  closeStdin(): Promise<void> {
    const { summary, execs } = this.#parts;
    return summary.tty ? this.#send(encodeAttachMessage({ type: 'close_stdin' })) : execs.closeStdin(this.exec_id);
  }

  signal(signal: string | number): Promise<void> {
    return this.#parts.execs.signal(this.exec_id, signal);
  }

  kill(): Promise<void> {
    return this.#parts.execs.kill(this.exec_id);
  }

  resize(columns: number, rows: number): Promise<void> {
    return this.#send(encodeAttachMessage({ type: 'resize', columns, rows }));
  }

  async *#events(): AsyncGenerator<ExecEvent, void, undefined> {
    const { client, range, feed } = this.#parts;
    const signal = this.#signal;
    const explain = (error: unknown): unknown => client.explain(error, signal);
    const onFailure = (failure: ErrorBody): boolean => this.#inputFailed(failure);
    const options = { start: { ...this.#taken }, follow: true, signal, explain, onFailure };
    const followed = followOutput((offsets) => this.#connect(offsets), options);
    try {
      for await (const event of feed?.guard(followed, this.#parts.signal) ?? followed) {
        if (event.type === 'ended') this.#finish(new BoxkiteError('exec_ended', 'the command has ended'));
        if (event.type === 'ended' || range.only === undefined || event.stream === range.only) yield event;
        if (event.type !== 'ended')
          this.#take(event.stream, event.type === 'gap' ? event.to : event.offset + event.data.length);
      }
    } catch (error) {
      this.#finish(error instanceof BoxkiteFailure ? error : detached());
      throw error;
    } finally {
      this.#finish(detached());
    }
  }

  /** The consumer has come this far: the server is told soon, so that a command that waits for it goes on. */
  #take(stream: OutputStream, to: number): void {
    this.#unsaid += to - this.#taken[stream];
    this.#taken[stream] = to;
    if (this.#unsaid >= ACKNOWLEDGE_BYTES) this.#tell();
    else this.#telling ??= setTimeout(() => this.#tell(), ACKNOWLEDGE_MS);
  }

  #tell(): void {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    this.#unsaid = 0;
    // One that is lost with its connection is made good by the offsets of the next.
    this.#open?.send(encodeAttachMessage({ type: 'acknowledge', ...this.#taken })).catch(() => undefined);
  }

  /** A message was refused, which is no failure of the output. */
  #inputFailed(failure: ErrorBody): boolean {
    const { code, message } = failure.error;
    if (code === 'stdin_closed') this.#closed ??= new BoxkiteError('stdin_closed', message);
    return INPUT_FAILURES.has(code);
  }

  async #connect(offsets: Offsets): Promise<OutputSource> {
    const { client, sandbox } = this.#parts;
    const signal = this.#signal;
    const query = { stdout_offset: offsets.stdout, stderr_offset: offsets.stderr };
    const path = withQuery(execPath(sandbox, this.exec_id, '/attach'), query);
    const channel = await client.connect(path, v1.attachProtocol, signal);
    const abort = (): void => channel.close();
    signal?.addEventListener('abort', abort, { once: true });
    // One that came while the connection was made is not told of again.
    if (signal?.aborted === true) abort();
    this.#open = channel;
    this.#channel.resolve(channel);
    const discard = (): void => {
      signal?.removeEventListener('abort', abort);
      channel.close();
      if (this.#open !== channel) return;
      this.#open = null;
      this.#channel = Promise.withResolvers();
      this.#channel.promise.catch(() => undefined);
      if (this.#ended !== null) this.#channel.reject(this.#ended);
    };
    return { bytes: channel.messages, discard };
  }

  /** Waits for the connection where there is none, since a cut one comes back. */
  async #send(message: Uint8Array): Promise<void> {
    if (this.#ended !== null) throw this.#ended;
    const channel = await this.#channel.promise;
    try {
      await channel.send(message);
    } catch (error) {
      throw this.#parts.client.explain(error, this.#signal);
    }
  }

  #finish(why: BoxkiteFailure): void {
    clearTimeout(this.#telling);
    this.#ended ??= why;
    this.#channel.reject(this.#ended);
  }
}

function detached(): BoxkiteError {
  return new BoxkiteError('connection_lost', 'the command is no longer attached', {
    hint: 'Attach it again; it may still be running.',
  });
}
