/** Standard output that is a file or device: what can be full, where a pipe can only lose its reader. */
import { fstatSync, writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { isatty } from 'node:tty';

/** Whether a descriptor is a file or a device other than a terminal. */
export function isFileOutput(descriptor: number): boolean {
  try {
    const found = fstatSync(descriptor);
    return found.isFile() || found.isBlockDevice() || (found.isCharacterDevice() && !isatty(descriptor));
  } catch {
    // Node's own stream tells what is wrong with it.
    return false;
  }
}

/** Writes all or fails. Node's own stream for files takes a write that a full disk cut short for a whole one. */
export class FileOutput extends Writable {
  readonly #descriptor: number;

  constructor(descriptor: number) {
    super({ decodeStrings: true });
    this.#descriptor = descriptor;
  }

  override _write(data: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    try {
      for (let at = 0; at < data.length; ) at += writeSync(this.#descriptor, data, at);
    } catch (error) {
      return done(new LostOutputError(error));
    }
    done();
  }
}

/** A file or device took no more. */
export class LostOutputError extends Error {
  constructor(cause: unknown) {
    super('standard output can not be written', { cause });
    this.name = 'LostOutputError';
  }
}
