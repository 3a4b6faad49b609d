/**
 * The file of one long stream. First a page that says what is in it, then the first bytes of the log, then a ring of its
 * last bytes. The ring has room for one write beyond what is kept, so that a write that is cut short spoils nothing of
 * what the page describes; the page is written after the bytes, in one piece.
 */
import { crc32 } from 'node:zlib';
import type { RedactorPosition } from '@boxkite/policy';
import { z } from 'zod';
import { closeFile, FILE_MODE, openFile, readAt, readPart, writeAt } from './disk.ts';

/** What the bytes of the file are. */
export interface Checkpoint {
  /** Raw bytes of the command whose share of the log is in the file. */
  readonly raw: number;
  /** End of the log so far. */
  readonly end: number;
  /** Kept are the bytes before `headEnd`, and those from `tailFrom` to `end`. */
  readonly headEnd: number;
  readonly tailFrom: number;
  /** Where the redactor stood; its `settled` is `raw`. */
  readonly redactor: Omit<RedactorPosition, 'settled'>;
}

/** Bytes that one write may add. */
export const SLACK_BYTES = 1024 * 1024;
const PAGE_BYTES = 4096;
const MAGIC = 0x474c4b42;
const natural = z.number().int().min(0);
const pageSchema = z.object({
  head: natural,
  tail: natural,
  raw: natural,
  end: natural,
  headEnd: natural,
  tailFrom: natural,
  redactor: z.object({
    covered: natural,
    values: z.array(natural),
    steps: z.number(),
    patterns: z
      .object({ key: z.string().nullable(), inWord: z.boolean(), inValue: z.boolean(), given: natural })
      .exactOptional(),
  }),
});

type Page = z.output<typeof pageSchema>;

/** One open file of a log. */
export class LogFile {
  readonly path: string;
  /** Bytes kept from the start and from the end. */
  readonly head: number;
  readonly tail: number;
  readonly #ring: number;
  /** `null` once it is closed: what is read then is opened for that alone. */
  #fd: number | null;
  /** Reads and writes under way: a descriptor is closed after the last one. */
  #busy = 0;

  private constructor(path: string, fd: number | null, sizes: { readonly head: number; readonly tail: number }) {
    this.path = path;
    this.#fd = fd;
    this.head = sizes.head;
    this.tail = sizes.tail;
    this.#ring = sizes.tail + SLACK_BYTES;
  }

  static async create(path: string, sizes: { readonly head: number; readonly tail: number }): Promise<LogFile> {
    return new LogFile(path, await openFile(path, 'w+', FILE_MODE), sizes);
  }

  /** A file that is only read from now on. */
  static finished(path: string, sizes: { readonly head: number; readonly tail: number }): LogFile {
    return new LogFile(path, null, sizes);
  }

  /** The file with what its page says; `null` where it was never finished or is damaged. */
  static async open(path: string): Promise<{ readonly file: LogFile; readonly checkpoint: Checkpoint } | null> {
    const fd = await openFile(path, 'r+');
    let page: Page | null = null;
    try {
      page = readPage(await readAt(fd, PAGE_BYTES, 0));
    } finally {
      if (page === null) await closeFile(fd);
    }
    return page === null ? null : { file: new LogFile(path, fd, page), checkpoint: page };
  }

  /** Writes bytes of the log from `offset` on, at most `SLACK_BYTES`. They count once `mark` has said so. */
  write(offset: number, pieces: readonly Uint8Array[]): Promise<void> {
    return this.#use(async (fd) => {
      let at = offset;
      let run: Uint8Array[] = [];
      let runAt = this.#position(offset);
      let runEnd = runAt;
      for (const whole of pieces) {
        let piece = whole;
        while (piece.length > 0) {
          const position = this.#position(at);
          if (position !== runEnd) {
            await writeAt(fd, run, runAt);
            [run, runAt, runEnd] = [[], position, position];
          }
          const part = piece.subarray(0, this.#borderAfter(at) - at);
          run.push(part);
          at += part.length;
          runEnd += part.length;
          piece = piece.subarray(part.length);
        }
      }
      await writeAt(fd, run, runAt);
    });
  }

  /** From here on the file is what `checkpoint` says. */
  mark(checkpoint: Checkpoint): Promise<void> {
    return this.#use((fd) => writeAt(fd, [pageOf({ head: this.head, tail: this.tail, ...checkpoint })], 0));
  }

  /** Bytes of the log from `offset` on: `length` or fewer, as far as they are in one piece. */
  read(offset: number, length: number): Promise<Uint8Array> {
    const most = Math.min(length, this.#borderAfter(offset) - offset);
    if (this.#fd === null) return readPart(this.path, most, this.#position(offset));
    return this.#use((fd) => readAt(fd, most, this.#position(offset)));
  }

  /** Closes the descriptor after what is under way; it can still be read. Idempotent. */
  async close(): Promise<void> {
    const fd = this.#fd;
    if (fd === null) return;
    this.#fd = null;
    if (this.#busy === 0) await closeFile(fd);
  }

  async #use<T>(run: (fd: number) => Promise<T>): Promise<T> {
    const fd = this.#fd;
    if (fd === null) throw new Error('the log file is closed');
    this.#busy += 1;
    try {
      return await run(fd);
    } finally {
      this.#busy -= 1;
      if (this.#fd === null && this.#busy === 0) await closeFile(fd);
    }
  }

  #position(offset: number): number {
    return PAGE_BYTES + (offset < this.head ? offset : this.head + ((offset - this.head) % this.#ring));
  }

  /** Where the bytes from `offset` on stop being one piece of the file. */
  #borderAfter(offset: number): number {
    if (offset < this.head) return this.head;
    return offset + this.#ring - ((offset - this.head) % this.#ring);
  }
}

function pageOf(content: Checkpoint & { readonly head: number; readonly tail: number }): Buffer {
  const page = Buffer.alloc(PAGE_BYTES);
  const text = Buffer.from(JSON.stringify(content));
  page.writeUInt32LE(MAGIC, 0);
  page.writeUInt32LE(text.length, 4);
  page.writeUInt32LE(crc32(text), 8);
  text.copy(page, 12);
  return page;
}

function readPage(page: Buffer): Page | null {
  if (page.length < 12 || page.readUInt32LE(0) !== MAGIC) return null;
  const text = page.subarray(12, 12 + page.readUInt32LE(4));
  if (crc32(text) !== page.readUInt32LE(8)) return null;
  const parsed = pageSchema.safeParse(JSON.parse(text.toString()));
  return parsed.success ? parsed.data : null;
}
