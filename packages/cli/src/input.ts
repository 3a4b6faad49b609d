/** Passes standard input on to a command. */

import type { Readable } from 'node:stream';
import type { ExecHandle } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';

/** What the source is. */
export interface InputKind {
  /** A terminal, which hangs up. */
  readonly terminal: boolean;
  /** Keys for a terminal of the command: whoever types sees that one is lost. */
  readonly keys: boolean;
}

/** The command takes no more, or its output tells what has become of it. */
const ENDS: ReadonlySet<string> = new Set(['stdin_closed', 'exec_ended', 'runner_lost']);
/** There is nothing left to kill. */
const GONE: ReadonlySet<string> = new Set(['exec_ended', 'runner_lost', 'not_found', 'closing']);
const CUTS: ReadonlySet<string> = new Set(['connection_lost', 'daemon_unreachable', 'state_unavailable']);

/** The stream to stop once the command has ended, and whether it was stopped by us. */
export class Input {
  readonly #source: Readable;
  readonly #kind: InputKind;
  readonly #unkilled = Promise.withResolvers<never>();
  #stopped = false;

  constructor(source: Readable, kind: InputKind) {
    this.#source = source;
    this.#kind = kind;
    this.#unkilled.promise.catch((): undefined => undefined);
  }

  /** Rejects where the command has lost input and can't be killed either: its end is not to be waited for. */
  get unkilled(): Promise<never> {
    return this.#unkilled.promise;
  }

  /**
   * Resolves when the input has ended or the command takes no more; a command that doesn't read makes the source wait.
   * Where input is lost on either side the command is killed, since an end would make it take a part for the whole, and
   * this rejects.
   */
  async pass(handle: ExecHandle): Promise<void> {
    try {
      for await (const chunk of this.#chunks()) await this.#write(handle, chunk);
      if (!this.#stopped) await handle.closeStdin();
    } catch (error) {
      if (this.#stopped || isOneOf(ENDS, error)) return;
      await this.#kill(handle, error);
    }
  }

  /** Reads no more. */
  stop(): void {
    this.#stopped = true;
    this.#source.destroy();
  }

  async *#chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const chunk of this.#source) {
        if (this.#stopped) return;
        yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      }
    } catch (error) {
      if (this.#stopped || this.#isHangUp(error)) {
        this.#stopped = true;
        return;
      }
      const detail = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      throw new BoxkiteError('invalid_request', `standard input can't be read: ${detail}`, {
        hint: 'Give a file, a pipe or a terminal as standard input, or </dev/null.',
        cause: error,
      });
    }
  }

  async #write(handle: ExecHandle, data: Uint8Array): Promise<void> {
    try {
      await handle.write(data);
    } catch (error) {
      if (!this.#kind.keys || !isOneOf(CUTS, error)) throw error;
    }
  }

  /** Throws what the command is killed for, unless it has ended already: its output tells how. */
  async #kill(handle: ExecHandle, why: unknown): Promise<void> {
    try {
      await handle.kill();
    } catch (error) {
      if (isOneOf(GONE, error)) return;
      this.#unkilled.reject(why);
    }
    throw why;
  }

  /** A terminal that has gone, or a background process that may not read from it. */
  #isHangUp(error: unknown): boolean {
    return (
      this.#kind.terminal && error instanceof Error && 'code' in error && ['EIO', 'EAGAIN'].includes(String(error.code))
    );
  }
}

function isOneOf(codes: ReadonlySet<string>, error: unknown): boolean {
  return error instanceof BoxkiteFailure && codes.has(error.code);
}
