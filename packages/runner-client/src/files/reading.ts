import { type AnswerStream, itemsOf } from './answer-stream.ts';
import { decodeStat } from './decode.ts';
import { PayloadReader } from './payload.ts';
import type { FileStat } from './types.ts';

/** A file that is being read. It is iterated once; leaving the iteration early cancels the call. */
export class FileReading implements AsyncIterable<Uint8Array> {
  readonly #stream: AnswerStream;

  constructor(stream: AnswerStream) {
    this.#stream = stream;
  }

  /** Attributes of the file when it was opened. */
  async meta(): Promise<FileStat> {
    return decodeStat(new PayloadReader(await this.#stream.meta()));
  }

  /** Cancels the call unless it is over. */
  close(): void {
    this.#stream.close();
  }

  /** All bytes in memory of their own. */
  async all(): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let piece = await this.#stream.next(); piece !== undefined; piece = await this.#stream.next()) {
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    return itemsOf(
      this.#stream,
      (piece) => [piece],
      () => undefined,
    );
  }
}
