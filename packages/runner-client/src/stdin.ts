import type { Socket } from 'node:net';
import { BoxkiteError } from '@boxkite/protocol';

/** A write of so many bytes that is the only one is never refused. */
const FREE_BYTES = 64 * 1024;

/** Input for which memory is held already, until `free` is called. */
export interface HeldInput {
  readonly data: Uint8Array;
  readonly free: () => void;
}

/**
 * The standard input of one exec on a connection of its own, opened at the first use. Writes keep their order; each
 * resolves when the kernel has taken its bytes.
 */
export class StdinWriter {
  readonly #open: () => Promise<Socket>;
  readonly #hold: (bytes: number) => () => void;
  /** Writes whose bytes are not taken yet. */
  #waiting = 0;
  #socket: Promise<Socket> | null = null;
  #closing = false;
  /** The exec has ended or its connection is lost. */
  #ended = false;

  /** `open` gives a socket whose next byte is standard input; `hold` what frees the memory of as many bytes that wait. */
  constructor(open: () => Promise<Socket>, hold: (bytes: number) => () => void) {
    this.#open = open;
    this.#hold = hold;
  }

  /** Rejects `stdin_closed`, or `exec_ended` after the end; `capacity` where too much waits for the command already. */
  async write(data: Uint8Array): Promise<void> {
    if (this.#closing) throw stdinClosed('it was closed by its writer');
    // A little is always taken, so that those who wait for each write never need the memory of others.
    const free = this.#waiting === 0 && data.length <= FREE_BYTES ? null : this.#hold(data.length);
    await this.#write(data).finally(free);
  }

  async #write(data: Uint8Array): Promise<void> {
    this.#waiting += 1;
    try {
      await this.#taken(data);
    } finally {
      this.#waiting -= 1;
    }
  }

  async #taken(data: Uint8Array): Promise<void> {
    const socket = await this.#connected();
    if (data.length === 0) return;
    await new Promise<void>((resolve, reject) => {
      // Destroying the socket calls back for everything that is not yet written, too.
      socket.write(data, (error) => {
        if (error === null || error === undefined) resolve();
        else reject(this.#refusal(error));
      });
    });
  }

  /** Writes and closes in the background; a command that does not read all of it is no failure. */
  writeAll({ data, free }: HeldInput, onFailure: (error: BoxkiteError) => void): void {
    const done = this.#write(data)
      .finally(free)
      .then(() => this.close());
    done.catch((error: unknown) => {
      const known =
        error instanceof BoxkiteError ? error : new BoxkiteError('internal', 'standard input failed', { cause: error });
      if (known.code !== 'exec_ended' && known.code !== 'stdin_closed') onFailure(known);
    });
  }

  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    // A stream that no write has opened is opened for its end alone: only that tells the command.
    const socket = await this.#connected().catch((error: unknown) => {
      if (error instanceof BoxkiteError && (error.code === 'exec_ended' || error.code === 'stdin_closed')) return null;
      // The command was told nothing: it may be tried again.
      this.#closing = false;
      throw error;
    });
    if (socket === null || socket.destroyed) return;
    await new Promise<void>((resolve) => {
      socket.once('close', () => resolve());
      // A byte says that the end was seen: from then on it is one, whatever becomes of this process.
      socket.once('data', () => resolve());
      socket.end();
    });
  }

  /** Lets go of the socket; writes that are under way reject. */
  end(): void {
    this.#ended = true;
    void this.#socket?.then((socket) => socket.destroy(), ignoreOpenFailure);
  }

  async #connected(): Promise<Socket> {
    if (this.#ended) throw this.#refusal();
    this.#socket ??= this.#opened();
    const socket = await this.#socket;
    if (socket.destroyed) throw this.#refusal();
    return socket;
  }

  async #opened(): Promise<Socket> {
    try {
      const socket = await this.#open();
      // Errors reach the writes through their callbacks and `close`.
      socket.on('error', () => socket.destroy());
      socket.on('end', () => socket.destroy());
      socket.resume();
      if (this.#ended) socket.destroy();
      return socket;
    } catch (error) {
      // What was missing, a descriptor for one, may be there at the next try.
      this.#socket = null;
      throw error;
    }
  }

  #refusal(cause?: unknown): BoxkiteError {
    if (this.#ended) return new BoxkiteError('exec_ended', 'the command has ended', { cause });
    return stdinClosed('the command does not read it any more', cause);
  }
}

function stdinClosed(why: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('stdin_closed', `standard input is closed: ${why}`, { cause });
}

/** The failure was given to the write that opened the socket; at the end there is nothing to let go of. */
function ignoreOpenFailure(): void {
  // Nothing was opened.
}
