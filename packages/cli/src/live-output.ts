/** Passes a command's output on as it comes. A reader that is slow makes the command wait; one that is gone ends it. */

import type { Writable } from 'node:stream';
import type { ExecEvent, ExecRecord, OutputStream } from '@boxkite/protocol';

/** Where the output goes; each stream is made when its first byte comes. */
export interface OutputTargets {
  stdout(): Writable;
  stderr(): Writable;
}

/** What happens beside the output. */
export interface OutputEvents {
  /** Standard output is taken no longer: its reader is gone, or its disk is full. Called once. */
  brokenPipe(): void;
  /** The command has ended, before its reader has all. */
  ended(): void;
  /** Bytes of a stream are missing here. */
  gap(stream: OutputStream, from: number, to: number): void;
  /** Standard output before it is passed on. */
  stdout?(data: Uint8Array): void;
}

/** One stream of output of this process. */
class Target {
  readonly #open: () => Writable;
  readonly #onBroken: () => void;
  #stream: Writable | null = null;
  #broken = false;
  #resume: (() => void) | null = null;

  constructor(open: () => Writable, onBroken: () => void) {
    this.#open = open;
    this.#onBroken = onBroken;
  }

  async write(data: Uint8Array): Promise<void> {
    const stream = this.#attached();
    if (this.#broken || stream.write(data)) return;
    await new Promise<void>((resolve) => {
      this.#resume = resolve;
      stream.once('drain', resolve);
    });
  }

  /** Resolves when all that was written has left this process, or nobody is there to take it. */
  async flush(): Promise<void> {
    const stream = this.#stream;
    if (stream === null || this.#broken) return;
    await new Promise<void>((resolve) => {
      this.#resume = resolve;
      stream.write('', () => resolve());
    });
  }

  /** Waits for the reader no longer. */
  abandon(): void {
    this.#broken = true;
    this.#resume?.();
  }

  #attached(): Writable {
    if (this.#stream !== null) return this.#stream;
    const stream = this.#open();
    this.#stream = stream;
    stream.on('error', () => {
      // Nobody takes what comes, so the output ends here. What of it is to be told is told when this process ends.
      const first = !this.#broken;
      this.abandon();
      if (first) this.#onBroken();
    });
    return stream;
  }
}

/** The live output of one command. */
export class LiveOutput {
  readonly #stdout: Target;
  readonly #stderr: Target;
  readonly #events: OutputEvents;
  #brokenPipe = false;

  constructor(targets: OutputTargets, events: OutputEvents) {
    this.#events = events;
    this.#stdout = new Target(
      () => targets.stdout(),
      () => {
        this.#brokenPipe = true;
        events.brokenPipe();
      },
    );
    // Without a reader of its messages a command goes on, as it does in a shell that ignores SIGPIPE.
    this.#stderr = new Target(
      () => targets.stderr(),
      () => undefined,
    );
  }

  get brokenPipe(): boolean {
    return this.#brokenPipe;
  }

  /** Passes everything on. Returns the record, or `null` where the output ends without one. */
  async pass(events: AsyncIterable<ExecEvent>): Promise<ExecRecord | null> {
    let record: ExecRecord | null = null;
    for await (const event of events) {
      if (event.type === 'output') await this.#write(event.stream, event.data);
      else if (event.type === 'gap') this.#gap(event.stream, event.from, event.to);
      else {
        record = event.record;
        this.#events.ended();
      }
    }
    await Promise.all([this.#stdout.flush(), this.#stderr.flush()]);
    return record;
  }

  /** Without a reader of standard output nothing is missing from it. */
  #gap(stream: OutputStream, from: number, to: number): void {
    if (!this.#brokenPipe) this.#events.gap(stream, from, to);
  }

  #write(stream: OutputStream, data: Uint8Array): Promise<void> {
    if (stream === 'stderr') return this.#stderr.write(data);
    this.#events.stdout?.(data);
    return this.#stdout.write(data);
  }

  /** Waits for readers no longer; what is not written yet is lost. */
  abandon(): void {
    this.#stdout.abandon();
    this.#stderr.abandon();
  }
}
