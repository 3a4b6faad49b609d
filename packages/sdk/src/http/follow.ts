/** Output of an exec from given offsets on, over as many connections as it takes. */
import type { ErrorBody, ExecEvent, OutputFrame, OutputStream } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteWireError, errorRegistry, isErrorCode, OutputFrameDecoder } from '@boxkite/protocol';
import { pause, retryDelay } from './backoff.ts';
import { TransportError } from './transport.ts';

/** One connection: bytes of output frames from the given offsets on. */
export type OpenOutput = (offsets: Offsets, signal: AbortSignal | undefined) => Promise<OutputSource>;

/** Where each stream goes on. */
export type Offsets = Readonly<Record<OutputStream, number>>;

/** Bytes of one connection. */
export interface OutputSource {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Ends the connection, and with it the bytes. */
  discard(): void;
}

/** How a cut is mended. */
export interface FollowTimes {
  /** ms without a byte until a connection counts as cut: the server sends a sign of life every 10 s. */
  readonly silence_ms: number;
  /** ms from a cut, without progress since, until it is given up. */
  readonly patience_ms: number;
}

/** What a person waits for, and a daemon needs to start again. */
const followTimes: FollowTimes = { silence_ms: 35_000, patience_ms: 60_000 };

/** A connection that brought so much was worth its price: the next one is made at once. */
const WORTHY_BYTES = 1024 * 1024;

/** What is followed. */
export interface FollowOptions {
  readonly start?: { readonly [Stream in OutputStream]?: number | undefined } | undefined;
  /** Until the exec has ended; else the server's end of the output is the end. */
  readonly follow: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly times?: FollowTimes | undefined;
  /** Told of a failure that came as a frame; `true` where the output goes on. */
  readonly onFailure?: ((failure: ErrorBody) => boolean) | undefined;
  /** The error for a failed connection. */
  readonly explain: (error: unknown) => unknown;
}

/**
 * Events in order, without duplicates and without holes but `gap`s; `ended` is the last one where the exec has ended.
 * Errors: as the server's; `connection_lost` where a cut could not be mended; `aborted`.
 */
export async function* followOutput(
  open: OpenOutput,
  options: FollowOptions,
): AsyncGenerator<ExecEvent, void, undefined> {
  const { signal, times = followTimes } = options;
  const position = { stdout: options.start?.stdout ?? 0, stderr: options.start?.stderr ?? 0 };
  const cuts = new Cuts();
  for (;;) {
    const before = position.stdout + position.stderr;
    let source: OutputSource | null = null;
    try {
      source = await open({ ...position }, signal);
      const ended = yield* readOne(source, position, times.silence_ms, options.onFailure);
      if (ended || !options.follow) return;
      throw new TransportError('cut', new Error('the output ended before the command'));
    } catch (error) {
      if (!isMendable(error) || signal?.aborted === true) throw options.explain(error);
      const delay = cuts.next(position.stdout + position.stderr - before);
      if (cuts.lastFor > times.patience_ms) throw options.explain(error);
      if (delay > 0) await pause(delay, signal);
    } finally {
      source?.discard();
    }
  }
}

/** Cuts that have no progress between them. */
class Cuts {
  #count = 0;
  #since = 0;

  /** One more, after so many bytes: ms until the next attempt. */
  next(progress: number): number {
    if (progress > 0 || this.#count === 0) {
      this.#count = 0;
      this.#since = Date.now();
    }
    this.#count += 1;
    return progress < WORTHY_BYTES ? retryDelay(this.#count) : 0;
  }

  /** ms since the first one. */
  get lastFor(): number {
    return Date.now() - this.#since;
  }
}

/** A cut, or a server that says that it is not ready yet. */
function isMendable(error: unknown): boolean {
  if (error instanceof TransportError) return true;
  if (error instanceof BoxkiteWireError) return error.retryable && error.status === 503;
  // A call that opens a connection has tried some times already.
  return error instanceof BoxkiteError && error.code === 'connection_lost' && error.cause instanceof TransportError;
}

/** The events of one connection; whether the exec has ended with them. */
async function* readOne(
  source: OutputSource,
  position: Record<OutputStream, number>,
  silence: number,
  onFailure: FollowOptions['onFailure'],
): AsyncGenerator<ExecEvent, boolean, undefined> {
  const decoder = new OutputFrameDecoder();
  const watch = new SilenceWatch(() => source.discard());
  let ended = false;
  watch.start(silence);
  try {
    for await (const chunk of source.bytes) {
      watch.stop();
      if (!ended) ended = yield* given(decoder.push(chunk), position, onFailure);
      // The end of the body follows at once; a connection that is read to it can serve another call.
      watch.start(ended ? Math.min(silence, END_MS) : silence);
    }
  } catch (error) {
    if (ended) return true;
    throw watch.expired ? silent() : error;
  } finally {
    watch.stop();
  }
  if (watch.expired && !ended) throw silent();
  return ended;
}

/** The events of some frames; whether the exec has ended with them. */
function* given(
  frames: readonly OutputFrame[],
  position: Record<OutputStream, number>,
  onFailure: FollowOptions['onFailure'],
): Generator<ExecEvent, boolean, undefined> {
  for (const frame of frames) {
    if (frame.type === 'heartbeat') continue;
    if (frame.type === 'error') {
      if (onFailure?.(frame.error) === true) continue;
      throw wireError(frame.error);
    }
    const event = placed(frame, position);
    if (event !== null) yield event;
    if (frame.type === 'ended') return true;
  }
  return false;
}

const END_MS = 1000;

function silent(): TransportError {
  return new TransportError('cut', new Error('the server was silent'));
}

/** The part of an event that is new, which moves the position on. */
function placed(event: ExecEvent, position: Record<OutputStream, number>): ExecEvent | null {
  if (event.type === 'ended') return event;
  const at = position[event.stream];
  if (event.type === 'gap') {
    if (event.to <= at) return null;
    if (event.from > at) throw missing(event.stream, event.from);
    position[event.stream] = event.to;
    return event.from === at ? event : { ...event, from: at };
  }
  const end = event.offset + event.data.length;
  if (end <= at) return null;
  if (event.offset > at) throw missing(event.stream, event.offset);
  position[event.stream] = end;
  return event.offset === at ? event : { ...event, offset: at, data: event.data.subarray(at - event.offset) };
}

function missing(stream: OutputStream, offset: number): BoxkiteError {
  return new BoxkiteError(
    'unexpected_answer',
    `output of ${stream} is missing before byte ${offset}, and no gap says so`,
  );
}

/** A failure that came as a frame, where a status would have stood. */
function wireError(body: ErrorBody): BoxkiteWireError {
  const { code } = body.error;
  return new BoxkiteWireError(isErrorCode(code) ? errorRegistry[code].status : 500, body);
}

/** Ends a connection that says nothing while somebody waits for it; a consumer may take as long as it likes. */
class SilenceWatch {
  expired = false;
  readonly #end: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(end: () => void) {
    this.#end = end;
  }

  start(ms: number): void {
    this.#timer = setTimeout(() => {
      this.expired = true;
      this.#end();
    }, ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
