/** Passes a command's output on as it comes. A reader that is slow makes the command wait; one that is gone ends it. */

import type { Writable } from 'node:stream';
import type { ExecHandle, ExecRecord } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** Where the output goes; each stream is made when its first byte comes. */
export interface OutputTargets {
  stdout(): Writable;
  stderr(): Writable;
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
      // EPIPE in nearly every case: there is nobody left to tell, so the output ends here.
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
  #brokenPipe = false;

  /** `onBrokenPipe` is called once, when the reader of standard output is gone. */
  constructor(targets: OutputTargets, onBrokenPipe: () => void) {
    this.#stdout = new Target(
      () => targets.stdout(),
      () => {
        this.#brokenPipe = true;
        onBrokenPipe();
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

  /** Passes everything on up to the end. `onEnded` is called when the command has ended, before its reader has all. Errors: `runner_lost`. */
  async pass(handle: ExecHandle, onEnded: () => void): Promise<ExecRecord> {
    for await (const event of handle) {
      if (event.type === 'output') await (event.stream === 'stdout' ? this.#stdout : this.#stderr).write(event.data);
      else if (event.type === 'ended') {
        onEnded();
        await Promise.all([this.#stdout.flush(), this.#stderr.flush()]);
        return event.record;
      }
    }
    throw new BoxkiteError('internal', 'the output of the command ended without its record');
  }

  /** Waits for readers no longer; what is not written yet is lost. */
  abandon(): void {
    this.#stdout.abandon();
    this.#stderr.abandon();
  }
}
