/** Edits of one file take turns, so that none of them is made in vain because of another one here. */
import { BoxkiteError } from '@boxkite/protocol';

/** The edits of one session that are under way or wait, by the path that they edit. */
export class EditTurns {
  /** Of each path that is being edited, those who wait for it. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Whether nothing is being edited. */
  get isIdle(): boolean {
    return this.#waiting.size === 0;
  }

  /** Does it when those who came before have ended, however that was. Errors: `aborted`, and those of the work. */
  async take<T>(path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(path, signal);
    try {
      return await work();
    } finally {
      const next = this.#waiting.get(path)?.shift();
      if (next === undefined) this.#waiting.delete(path);
      else next();
    }
  }

  #turn(path: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(cancelled(signal));
    const waiting = this.#waiting.get(path);
    if (waiting === undefined) {
      this.#waiting.set(path, []);
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        waiting.splice(waiting.indexOf(next), 1);
        reject(cancelled(signal));
      };
      signal.addEventListener('abort', leave, { once: true });
      waiting.push(next);
    });
  }
}

function cancelled(signal: AbortSignal): BoxkiteError {
  return new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
}
