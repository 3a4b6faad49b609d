/** An append-only journal in segments. What lives in the oldest segment is moved to its end, so that it stays small. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  closeFile,
  FILE_MODE,
  hasCode,
  namesIn,
  openFile,
  readPart,
  readWhole,
  removeIfThere,
  truncateFile,
  writeAt,
} from './disk.ts';
import { type EntryParts, encodeEntry, entriesOf, type FoundEntry } from './journal-entry.ts';

/** How large a journal grows. */
export interface JournalSizes {
  /** A segment of so many bytes is followed by another one. */
  readonly segment: number;
  /** So many dead bytes are left alone, beside as many as are alive. */
  readonly dead: number;
}

const MIB = 1024 * 1024;
const SIZES: JournalSizes = { segment: 4 * MIB, dead: 8 * MIB };
/** An idle journal keeps no descriptor. */
const IDLE_MS = 1000;
const NAME = /^journal-(\d{10})$/;

/** A live entry: where it is, and how it is written again at another place. */
export interface Place {
  readonly segment: number;
  readonly length: number;
  /** Offsets in the segment. */
  readonly stdoutAt: number;
  readonly stderrAt: number;
}

/** Who holds a place, and gives the entry again when the place is to be freed. */
export interface Holder {
  /** The parts to be written again, or `null` where nothing of it is needed any more. */
  rewrite(): Promise<EntryParts | null>;
  /** It is there now. */
  moved(place: Place): void;
}

interface Waiting {
  readonly parts: EntryParts;
  readonly holder: Holder;
  resolve(place: Place): void;
  reject(error: unknown): void;
}

interface Segment {
  readonly live: Map<Holder, Place>;
  liveBytes: number;
  bytes: number;
}

/** The journal of one sandbox. */
export class Journal {
  readonly #directory: string;
  readonly #sizes: JournalSizes;
  readonly #segments = new Map<number, Segment>();
  #current = 0;
  #fd: number | null = null;
  #queue: Waiting[] = [];
  /** What is being written. */
  #batch: readonly Waiting[] = [];
  #writing: Promise<void> | null = null;
  #moving: Promise<void> | null = null;
  #idle: NodeJS.Timeout | null = null;
  #made = false;

  constructor(directory: string, sizes: JournalSizes = SIZES) {
    this.#directory = directory;
    this.#sizes = sizes;
  }

  /** What is there, oldest first. To be called first of all, once. */
  async replay(found: (entry: FoundEntry, segment: number) => void): Promise<void> {
    for (const number of await this.#numbers()) {
      const bytes = await readWhole(this.#path(number));
      for (const entry of entriesOf(bytes)) found(entry, number);
      this.#segments.set(number, { live: new Map(), liveBytes: 0, bytes: bytes.length });
      // What is cut at its end must not be followed by anything.
      this.#current = number + 1;
    }
  }

  /** After `replay`: an entry of it lives. */
  adopt(holder: Holder, place: Place): void {
    const segment = this.#segments.get(place.segment);
    if (segment === undefined) return;
    segment.live.set(holder, place);
    segment.liveBytes += place.length;
  }

  /** Resolves when the entry survives this process. It lives until its holder lets go of it. */
  append(parts: EntryParts, holder: Holder): Promise<Place> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ parts, holder, resolve, reject });
      this.#writing ??= this.#writeQueue();
    });
  }

  /** Nobody needs the entry at this place any more. */
  drop(holder: Holder, place: Place): void {
    const segment = this.#segments.get(place.segment);
    if (segment === undefined || segment.live.get(holder) !== place) return;
    segment.live.delete(holder);
    segment.liveBytes -= place.length;
    this.tidy();
  }

  /** Bytes of a segment. */
  read(segment: number, length: number, position: number): Promise<Buffer> {
    return readPart(this.#path(segment), length, position);
  }

  /** Removes segments in which nothing lives, and moves what keeps an old one alive; in the background. */
  tidy(): void {
    if (this.#moving !== null || this.#segments.size < 2) return;
    const done = (): void => {
      this.#moving = null;
    };
    // A file that can't be removed now is tried again at the next call.
    this.#moving = this.#tidy().then(done, done);
  }

  /** Resolves when nothing of what was appended is on disk. To be called when every holder has let go, and none appends. */
  async clear(): Promise<void> {
    await this.close();
    this.#current += 1;
    for (const number of [...this.#segments.keys()]) {
      await removeIfThere(this.#path(number));
      this.#segments.delete(number);
    }
  }

  /** Resolves when all that was appended is written, nothing is moved or removed any more, and no descriptor is open. */
  async close(): Promise<void> {
    while (this.#writing !== null || this.#moving !== null) await (this.#writing ?? this.#moving);
    await this.#release();
  }

  async #numbers(): Promise<number[]> {
    const names = await namesIn(this.#directory).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    });
    return names
      .flatMap((name) => NAME.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  async #make(): Promise<void> {
    if (this.#made) return;
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    this.#made = true;
  }

  #path(segment: number): string {
    return join(this.#directory, `journal-${String(segment).padStart(10, '0')}`);
  }

  async #writeQueue(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      this.#batch = batch;
      try {
        await this.#write(batch);
      } catch (error) {
        for (const waiting of batch) waiting.reject(error);
      }
    }
    this.#batch = [];
    this.#writing = null;
    this.#idle ??= setTimeout(() => {
      this.#idle = null;
      // A descriptor that can't be closed is closed all the same.
      if (this.#writing === null) this.#release().catch(ignore);
    }, IDLE_MS).unref();
    this.tidy();
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    const segment = await this.#open();
    const pieces: Uint8Array[] = [];
    const places: Place[] = [];
    let at = segment.bytes;
    for (const { parts } of batch) {
      const entry = encodeEntry(parts);
      pieces.push(...entry.pieces);
      places.push({
        segment: this.#current,
        length: entry.length,
        stdoutAt: at + entry.stdoutAt,
        stderrAt: at + entry.stderrAt,
      });
      at += entry.length;
    }
    try {
      await writeAt(this.#fd ?? -1, pieces, segment.bytes);
    } catch (error) {
      await this.#undo(segment);
      throw error;
    }
    segment.bytes = at;
    for (const [index, waiting] of batch.entries()) {
      const place = places[index] as Place;
      segment.liveBytes += place.length - (segment.live.get(waiting.holder)?.length ?? 0);
      segment.live.set(waiting.holder, place);
      waiting.resolve(place);
    }
  }

  /** The segment that is written to, with `#fd` open. */
  async #open(): Promise<Segment> {
    const present = this.#segments.get(this.#current);
    if (present !== undefined && present.bytes >= this.#sizes.segment) {
      await this.#release();
      this.#current += 1;
    }
    await this.#make();
    const known = this.#segments.get(this.#current);
    this.#fd ??= await openFile(this.#path(this.#current), known === undefined ? 'w+' : 'r+', FILE_MODE);
    const segment = known ?? { live: new Map<Holder, Place>(), liveBytes: 0, bytes: 0 };
    this.#segments.set(this.#current, segment);
    return segment;
  }

  /** Takes away what a failed write has left. Where that fails too, the next entry goes into another segment. */
  async #undo(segment: Segment): Promise<void> {
    try {
      await truncateFile(this.#fd ?? -1, segment.bytes);
    } catch {
      await this.#release();
      this.#current += 1;
    }
  }

  async #release(): Promise<void> {
    const fd = this.#fd;
    this.#fd = null;
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    if (fd !== null) await closeFile(fd);
  }

  async #tidy(): Promise<void> {
    for (const [number, segment] of this.#segments) {
      if (number === this.#current) return;
      if (segment.live.size > 0 && !this.#tooMuchDead()) return;
      for (const [holder, place] of [...segment.live]) await this.#move(segment, holder, place);
      if (segment.live.size > 0) return;
      await removeIfThere(this.#path(number));
      this.#segments.delete(number);
    }
  }

  async #move(segment: Segment, holder: Holder, place: Place): Promise<void> {
    try {
      const parts = await holder.rewrite();
      // Behind what its holder is writing it would be taken for the newer one.
      if (segment.live.get(holder) !== place || this.#isWriting(holder)) return;
      if (parts !== null) holder.moved(await this.append(parts, holder));
      if (segment.live.get(holder) !== place) return;
      segment.live.delete(holder);
      segment.liveBytes -= place.length;
    } catch {
      // It stays where it is: a full disk is tried again with the next entry.
    }
  }

  #isWriting(holder: Holder): boolean {
    return [...this.#batch, ...this.#queue].some((waiting) => waiting.holder === holder);
  }

  #tooMuchDead(): boolean {
    let [live, all] = [0, 0];
    for (const segment of this.#segments.values()) {
      live += segment.liveBytes;
      all += segment.bytes;
    }
    return all > 2 * live + this.#sizes.dead;
  }
}

function ignore(): void {
  // See there.
}
