/** Signals to this process are for the command; a second one is for those that don't listen. */
import type { ExecHandle } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { CommandIo } from './io.ts';

const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
const NUMBERS: Readonly<Record<string, number>> = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 };
const SIGNALED = 128;

/** Listens from the first moment, before there is a command. */
export class Interrupts {
  /** Aborts when the whole run is to end: a signal before the command runs, or a second one. */
  readonly #abort = new AbortController();
  readonly #stopListening: () => void;
  #handle: ExecHandle | null = null;
  #onSecond: (() => void) | null = null;
  #received: NodeJS.Signals | null = null;

  constructor(io: CommandIo) {
    this.#stopListening = io.onSignal(FORWARDED, (signal) => this.#receive(signal));
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** 128 + the number of the signal that ended the run, or `null`. */
  get exitStatus(): number | null {
    if (!this.#abort.signal.aborted || this.#received === null) return null;
    return SIGNALED + (NUMBERS[this.#received] ?? 0);
  }

  /** From now on signals go to this command; `onSecond` is called when one comes while the first has not ended it. */
  forwardTo(handle: ExecHandle, onSecond: () => void): void {
    this.#handle = handle;
    this.#onSecond = onSecond;
  }

  stop(): void {
    this.#stopListening();
  }

  #receive(signal: NodeJS.Signals): void {
    const second = this.#received !== null;
    this.#received = signal;
    if (this.#handle === null || second) {
      this.#onSecond?.();
      this.#abort.abort(new BoxkiteError('aborted', `interrupted by ${signal}`));
      return;
    }
    void this.#forward(this.#handle, signal);
  }

  async #forward(handle: ExecHandle, signal: NodeJS.Signals): Promise<void> {
    try {
      await handle.signal(signal);
    } catch (error) {
      // A command that has just ended needs no signal, and a lost runner is told by the output.
      if (!(error instanceof BoxkiteError)) throw error;
    }
  }
}
