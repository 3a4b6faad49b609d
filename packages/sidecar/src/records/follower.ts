/** Reads the output of an exec from given offsets on, and goes on as it grows. */
import { BoxkiteError, type ExecEvent, type OutputRange, type OutputStream } from '@boxkite/protocol';
import { hold, letGo, own } from '@boxkite/runner-client';
import type { ExecLog, Reader } from './exec-log.ts';

/** Beyond so many readers each has a copy of little: what those hold that have stalled is theirs alone. */
const MOST_LENT = 16;
const COPIED_BYTES = 64 * 1024;

const STREAMS = ['stdout', 'stderr'] as const satisfies readonly OutputStream[];

/** Pieces are given out in the order in which they came, as far as they are in memory. */
export async function* follow(
  log: ExecLog,
  range: OutputRange,
  signal?: AbortSignal,
): AsyncGenerator<ExecEvent, void, undefined> {
  const position = new Position(range);
  const sleeper = new Sleeper(log, signal);
  log.join(position);
  try {
    for (;;) {
      if (signal?.aborted === true) throw abortedBy(signal);
      const found = await nextEvent(log, position);
      if (found === 'again') continue;
      if (found !== null) {
        const event = forReader(found, range.lent === true && log.readers <= MOST_LENT);
        yield event;
        // It is asked for the next one: this one was taken.
        position.take(event);
        log.moved(false);
        continue;
      }
      if (log.failure !== null) throw log.failure;
      if (log.record !== null) {
        yield { type: 'ended', record: log.record };
        return;
      }
      if (range.follow === false) return;
      log.moved(true);
      await sleeper.sleep();
    }
  } finally {
    sleeper.dispose();
    log.leave(position);
  }
}

/** How far a reader has come. */
class Position implements Reader {
  readonly streams: readonly OutputStream[];
  readonly taken: Record<OutputStream, number>;

  constructor(range: OutputRange) {
    this.streams = range.only === undefined ? STREAMS : [range.only];
    this.taken = { stdout: this.#from(range, 'stdout'), stderr: this.#from(range, 'stderr') };
  }

  take(event: DataEvent): void {
    if (event.type === 'output') letGo(event.data);
    this.taken[event.stream] = event.type === 'output' ? event.offset + event.data.length : event.to;
  }

  #from(range: OutputRange, stream: OutputStream): number {
    const value = range[stream] ?? 0;
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new BoxkiteError('invalid_request', `the offset of ${stream} is to be a whole number from 0 on`, {
        details: { field: stream },
      });
    }
    return this.streams.includes(stream) ? value : Infinity;
  }
}

/** Waits for a change of the log, or for the signal. */
class Sleeper {
  readonly #log: ExecLog;
  readonly #signal: AbortSignal | undefined;
  #wake: (() => void) | null = null;

  constructor(log: ExecLog, signal: AbortSignal | undefined) {
    this.#log = log;
    this.#signal = signal;
    signal?.addEventListener('abort', this.#abort);
  }

  sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#log.onChange(resolve);
    });
  }

  dispose(): void {
    this.#signal?.removeEventListener('abort', this.#abort);
    if (this.#wake !== null) this.#log.offChange(this.#wake);
  }

  readonly #abort = (): void => this.#wake?.();
}

type OutputEvent = ExecEvent & { readonly type: 'output' };

/** The event with its data held; or, where it is not lent, with data that may be kept, and less of it where that is much. */
function forReader(event: DataEvent, lent: boolean): DataEvent {
  if (event.type === 'gap') return event;
  const data = lent ? event.data : own(event.data.subarray(0, COPIED_BYTES));
  hold(data);
  return data === event.data ? event : { ...event, data };
}

type DataEvent = Exclude<ExecEvent, { readonly type: 'ended' }>;

/** The next piece of any of the streams; `null` where there is none by now. */
async function nextEvent(log: ExecLog, position: Position): Promise<DataEvent | 'again' | null> {
  let first: OutputEvent | null = null;
  let order = Infinity;
  for (const stream of position.streams) {
    const from = position.taken[stream];
    const next = log[stream].next(from);
    if (next.kind === 'gap') return { type: 'gap', stream, from, to: next.to };
    if (next.kind === 'stored') {
      const data = await log[stream].load(from);
      return data === null || data.length === 0 ? 'again' : { type: 'output', stream, offset: from, data };
    }
    if (next.kind === 'chunk' && next.order < order) {
      order = next.order;
      first = { type: 'output', stream, offset: from, data: next.data };
    }
  }
  return first;
}

function abortedBy(signal: AbortSignal): BoxkiteError {
  return new BoxkiteError('aborted', 'the reading was cancelled', { cause: signal.reason });
}
