import { type Request, withCall } from './calls.ts';
import type { FileConnection } from './connection.ts';
import { dataChunk, frameTypes, initialGrant } from './frames.ts';
import { TextBytes } from './text-bytes.ts';

/** Bytes to send: all at once, or piece by piece. */
export type ByteSource = Uint8Array | TextBytes | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** A call to which the client streams bytes: as much as the agent grants, then COMMIT. A source that fails cancels the call. */
export async function upload(
  connection: FileConnection,
  request: Request,
  source: ByteSource,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  const sending = new Upload(connection);
  const answer = withCall(connection, request, signal, (id) => {
    sending.id = id;
    return { grant: (bytes) => sending.grant(bytes) };
  });
  const over = () => sending.stop();
  answer.then(over, over);
  // A source that never yields again must not keep the caller from learning of the answer.
  return await Promise.race([answer, sending.pump(source).then(() => answer)]);
}

class Upload {
  id: () => number = () => 0;
  readonly #connection: FileConnection;
  #granted = initialGrant;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(connection: FileConnection) {
    this.#connection = connection;
  }

  grant(bytes: number): void {
    this.#granted += bytes;
    this.#wake?.();
  }

  stop(): void {
    this.#over = true;
    this.#wake?.();
  }

  async pump(source: ByteSource): Promise<void> {
    try {
      if (source instanceof TextBytes) await this.#encode(source);
      else {
        for await (const bytes of source instanceof Uint8Array ? [source] : source) {
          await this.#send(bytes);
          if (this.#over) return;
        }
      }
    } catch (error) {
      this.#connection.cancel(this.id());
      throw error;
    }
    this.#connection.send(this.id(), frameTypes.commit, new Uint8Array());
  }

  async #send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += dataChunk) {
      while (this.#granted < dataChunk && !this.#over) await this.#room();
      if (this.#over) return;
      const piece = bytes.subarray(at, at + dataChunk);
      this.#granted -= piece.length;
      this.#connection.send(this.id(), frameTypes.sent, piece);
    }
  }

  /** Each piece is encoded when the one before is out of the memory that both are in. */
  async #encode(text: TextBytes): Promise<void> {
    const frame = this.#connection.takeFrame();
    try {
      for (;;) {
        while (this.#granted < dataChunk && !this.#over) await this.#room();
        const length = this.#over ? 0 : text.fill(frame.payload);
        if (length === 0) return;
        this.#granted -= length;
        await this.#connection.sendFrame(this.id(), frameTypes.sent, frame, length);
      }
    } finally {
      this.#connection.giveFrame(frame);
    }
  }

  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
