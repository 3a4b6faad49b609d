/** Signals to this process are for the command; a second one, or time, is for those that don't listen. */
import type { ExecHandle } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import type { CommandIo } from './io.ts';

const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
const NUMBERS: Readonly<Record<string, number>> = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 };
const SIGNALED = 128;
/** Sent by what wants this process to end, not by a person who could press a key once more. */
const ASKS_TO_END: ReadonlySet<NodeJS.Signals> = new Set(['SIGTERM', 'SIGHUP']);
/** What a command gets to end in after a SIGTERM or SIGHUP was handed on; then it is killed. */
export const END_GRACE_MS = 10_000;

/** Listens from the first moment, before there is a command. */
export class Interrupts {
  /** Aborts when the whole run is to end: a signal before the command runs, a second one, or one without effect. */
  readonly #abort = new AbortController();
  readonly #stopListening: () => void;
  #handle: Pick<ExecHandle, 'signal'> | null = null;
  #onKill: (() => void) | null = null;
  #grace: NodeJS.Timeout | undefined;
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

  /**
   * From now on signals go to this command. `onKill` is called when the first has not ended it: at the second signal,
   * or `END_GRACE_MS` after a SIGTERM or SIGHUP.
   */
  forwardTo(handle: Pick<ExecHandle, 'signal'>, onKill: () => void): void {
    this.#handle = handle;
    this.#onKill = onKill;
  }

  /** The command needs no more time; a reader of its output may. */
  commandEnded(): void {
    clearTimeout(this.#grace);
  }

  stop(): void {
    clearTimeout(this.#grace);
    this.#stopListening();
  }

  #receive(signal: NodeJS.Signals): void {
    const second = this.#received !== null;
    this.#received = signal;
    if (this.#handle === null || second) {
      this.#kill(signal);
      return;
    }
    if (ASKS_TO_END.has(signal)) this.#grace = setTimeout(() => this.#kill(signal), END_GRACE_MS);
    void this.#forward(this.#handle, signal);
  }

  #kill(signal: NodeJS.Signals): void {
    clearTimeout(this.#grace);
    this.#onKill?.();
    this.#abort.abort(new BoxkiteError('aborted', `interrupted by ${signal}`));
  }

  async #forward(handle: Pick<ExecHandle, 'signal'>, signal: NodeJS.Signals): Promise<void> {
    try {
      await handle.signal(signal);
    } catch (error) {
      // A command that has just ended needs no signal, and a lost runner is told by the output.
      if (!(error instanceof BoxkiteFailure)) throw error;
    }
  }
}
