/** Files of one sandbox. Relative paths start at `/workspace`. */

import type { FileInfo, FilesPort, SandboxPort, WriteOptions } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import type { ByteSource } from './byte-source.ts';
import { byteChunks } from './byte-source.ts';
import type { WaitOptions } from './deadline.ts';
import { Deadline } from './deadline.ts';
import type { DownloadOptions, DownloadReport, UploadOptions } from './directories.ts';

/** How a whole file is read. */
export interface ReadOptions extends WaitOptions {
  /** A larger file is refused with `file_too_large` before it fills memory. Default 256 MiB. */
  readonly max_bytes?: number | undefined;
}

/** How a file is streamed. */
export interface ReadStreamOptions extends WaitOptions {
  /** First byte. Default 0. */
  readonly offset?: number | undefined;
  /** Number of bytes. Default: to the end. */
  readonly length?: number | undefined;
}

/** What can be written: text (as UTF-8), bytes, or a stream of either, of the web or of Node. */
export type FileData = string | Uint8Array | ByteSource;

const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;

/** Reads and writes by the sandbox's file agent, which sees nothing but the sandbox's own five roots. */
export class SandboxFiles {
  readonly #sandbox: () => SandboxPort;

  constructor(sandbox: () => SandboxPort) {
    this.#sandbox = sandbox;
  }

  get #port(): FilesPort {
    return this.#sandbox().files;
  }

  /** A whole file as UTF-8 text; bytes that are not become U+FFFD. Errors: `file_not_found`, `is_directory`, `file_too_large`. */
  async read(path: string, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await this.readBytes(path, options));
  }

  /** A whole file as bytes. */
  async readBytes(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const most = options.max_bytes ?? DEFAULT_MAX_BYTES;
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const part of this.readStream(path, options)) {
      length += part.length;
      if (length > most) {
        throw new BoxkiteError('file_too_large', `${path} has more than ${most} bytes`, {
          hint: 'Raise `max_bytes`, or read it by `readStream`.',
        });
      }
      parts.push(part);
    }
    return concat(parts, length);
  }

  /** The bytes of a file, or of a range of it, as they come. Leaving the loop early ends the read. */
  readStream(path: string, options: ReadStreamOptions = {}): AsyncIterable<Uint8Array> {
    const range = {
      ...(options.offset === undefined ? {} : { offset: options.offset }),
      ...(options.length === undefined ? {} : { length: options.length }),
    };
    return new Deadline(options).iterate((signal) => this.#port.read(path, range, signal));
  }

  /** Writes a whole file, atomically: readers see the old or the new one. Makes missing parents. Errors: `no_space`, `read_only`, `file_changed`. */
  async write(path: string, data: FileData, options: WriteOptions & WaitOptions = {}): Promise<void> {
    const bytes =
      typeof data === 'string' ? new TextEncoder().encode(data) : data instanceof Uint8Array ? data : byteChunks(data);
    const { mode, parents, expected } = options;
    await new Deadline(options).run((signal) => this.#port.write(path, bytes, { mode, parents, expected }, signal));
  }

  /** The entries of a directory. Default: the workspace. */
  async list(path = '.', options: WaitOptions = {}): Promise<FileInfo[]> {
    return new Deadline(options).run(async (signal) => {
      const entries: FileInfo[] = [];
      for await (const entry of this.#port.list(path, signal)) entries.push(entry);
      return entries;
    });
  }

  /** What is at a path; a link is described, not followed. Errors: `file_not_found`. */
  async stat(path: string, options: WaitOptions = {}): Promise<FileInfo> {
    return new Deadline(options).run((signal) => this.#port.stat(path, signal));
  }

  async exists(path: string, options: WaitOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      // A parent that is a file means the same for who asks: nothing is there.
      if (error instanceof BoxkiteFailure && (error.code === 'file_not_found' || error.code === 'not_a_directory'))
        return false;
      throw error;
    }
  }

  /** Makes a directory and its missing parents; one that is there already is fine. */
  async mkdir(path: string, options: WaitOptions = {}): Promise<void> {
    await new Deadline(options).run((signal) => this.#port.mkdir(path, signal));
  }

  /** Removes a file, a link, or a directory with all that it holds. Errors: `file_not_found`. */
  async remove(path: string, options: WaitOptions = {}): Promise<void> {
    await new Deadline(options).run((signal) => this.#port.remove(path, signal));
  }

  /** Renames, replacing a file at the target. */
  async move(from: string, to: string, options: WaitOptions = {}): Promise<void> {
    await new Deadline(options).run((signal) => this.#port.move(from, to, signal));
  }

  /**
   * Puts a directory of this machine into one of the sandbox, which is made where it is missing; what is there already is
   * merged name by name. Links stay links, modes and times are kept. All or nothing. Node only. Errors: `invalid_request`
   * for what can't be read, `no_space`, `archive_refused`, `unsupported_platform`.
   */
  async uploadDirectory(local: string, remote: string, options: UploadOptions = {}): Promise<void> {
    const { filter, onNote } = options;
    const { uploadDirectory } = await import('#directories');
    await new Deadline(options).run((signal) =>
      uploadDirectory(this.#sandbox(), local, remote, { filter, onNote, signal }),
    );
  }

  /**
   * Puts a directory of the sandbox into a new or empty one of this machine. Nothing is written outside of it, whatever the
   * sandbox holds: links that lead out are refused, devices never come, modes lose their special bits. A failed call
   * leaves the target as it was. Node only. Errors: `archive_refused` names the entry or the limit; `directory_not_empty`,
   * `file_not_found`, `unsupported_platform`.
   */
  async downloadDirectory(remote: string, local: string, options: DownloadOptions = {}): Promise<DownloadReport> {
    const { timeout_ms, signal, ...rules } = options;
    const { downloadDirectory } = await import('#directories');
    return new Deadline({ timeout_ms, signal }).run((either) =>
      downloadDirectory(this.#port, remote, local, { ...rules, signal: either }),
    );
  }
}

function concat(parts: readonly Uint8Array[], length: number): Uint8Array {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only;
  // All of it is written: zeros first would cost as much as the copy.
  const whole = typeof Buffer === 'function' ? Buffer.allocUnsafeSlow(length) : new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
