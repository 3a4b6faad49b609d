/** Standard input of one background process. A process that does not read makes nobody wait for long. */
import { BoxkiteError } from '@boxkite/protocol';

const PIECE_BYTES = 64 * 1024;
/** For the process to take what is written. */
const PATIENCE_MS = 10_000;

/** Hands bytes on in order. */
export class ProcessInput {
  readonly #write: (data: Uint8Array) => Promise<void>;
  readonly #patienceMs: number;
  #turn: Promise<unknown> = Promise.resolve();
  /** A piece that was handed on and that the process has not taken yet. */
  #blocked: Promise<void> | null = null;

  constructor(write: (data: Uint8Array) => Promise<void>, patienceMs = PATIENCE_MS) {
    this.#write = write;
    this.#patienceMs = patienceMs;
  }

  /**
   * Resolves with how many of the bytes the process has got or will get: all, or fewer where it reads too slowly. Errors:
   * `capacity` where it takes none, `exec_ended`, `stdin_closed`.
   */
  write(data: Uint8Array): Promise<number> {
    const deadline = performance.now() + this.#patienceMs;
    return this.#next(() => this.#pieces(data, deadline));
  }

  /** Calls when all that was accepted is handed on, or nobody waits for that any longer. */
  close(end: () => Promise<void>): Promise<void> {
    return this.#next(async () => {
      const closing = end();
      closing.catch(ignore);
      await within(closing, performance.now() + this.#patienceMs);
    });
  }

  #next<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(run);
    this.#turn = turn.catch(ignore);
    return turn;
  }

  async #pieces(data: Uint8Array, deadline: number): Promise<number> {
    if (this.#blocked !== null && !(await within(this.#blocked, deadline))) throw blocked();
    this.#blocked = null;
    let accepted = 0;
    do {
      const piece = data.subarray(accepted, accepted + PIECE_BYTES);
      const writing = this.#write(piece);
      accepted += piece.length;
      if (await within(writing, deadline)) continue;
      this.#blocked = writing;
      writing.catch(ignore);
      break;
    } while (accepted < data.length);
    return accepted;
  }
}

/** Whether it resolved in time. */
async function within(work: Promise<void>, deadline: number): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), Math.max(0, deadline - performance.now()));
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function blocked(): BoxkiteError {
  return new BoxkiteError('capacity', 'the process has not read what it was sent before', {
    hint: 'Send more when the process has read its input, or stop it.',
    details: { limit: 'unread input' },
  });
}

function ignore(): void {
  // Whoever sent it is told, or the next one.
}
