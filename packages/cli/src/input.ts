/** Passes standard input on to a command. */

import type { Readable } from 'node:stream';
import type { ExecHandle } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** The stream to stop once the command has ended, and whether it was stopped by us. */
export class Input {
  readonly #source: Readable;
  #stopped = false;

  constructor(source: Readable) {
    this.#source = source;
  }

  /** Resolves when the input has ended or the command takes no more; a command that doesn't read makes the source wait. */
  async pass(handle: ExecHandle): Promise<void> {
    try {
      for await (const chunk of this.#source) {
        if (this.#stopped) return;
        await handle.write(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
      }
      await handle.closeStdin();
    } catch (error) {
      if (this.#isEnd(error)) return;
      await handle.closeStdin();
      const detail = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      throw new BoxkiteError('invalid_request', `standard input can't be read: ${detail}`, {
        hint: 'Give a file, a pipe or a terminal as standard input, or </dev/null.',
        cause: error,
      });
    }
  }

  /** Reads no more. */
  stop(): void {
    this.#stopped = true;
    this.#source.destroy();
  }

  /** The command has closed its input or has ended, or we stopped reading: no fault in any of them. */
  #isEnd(error: unknown): boolean {
    if (this.#stopped) return true;
    if (error instanceof BoxkiteError) return ['stdin_closed', 'exec_ended', 'runner_lost'].includes(error.code);
    // A terminal that hangs up, or a background process that may not read from it.
    return error instanceof Error && 'code' in error && (error.code === 'EIO' || error.code === 'EAGAIN');
  }
}
