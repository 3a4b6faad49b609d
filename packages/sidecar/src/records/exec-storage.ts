/** Where one exec is kept: its entries in the journal, and a file for each long stream. */
import { join } from 'node:path';
import { type Effective, type ExecRecord, type OutputStream, spoolBytes } from '@boxkite/protocol';
import { removeIfThere } from './disk.ts';
import type { ExecLog } from './exec-log.ts';
import type { Holder, Journal, Place } from './journal.ts';
import type { EntryParts } from './journal-entry.ts';
import type { LogBudget } from './log-budget.ts';
import { type Checkpoint, LogFile } from './log-file.ts';
import { bareRecord, type EndMeta, effectiveText, type LogMeta, type StartMeta } from './meta.ts';
import type { RawPosition } from './raw-stream.ts';
import type { StoredBytes, StreamLog } from './stream-log.ts';

/** What all execs of a sandbox share. */
export interface Shelf {
  readonly directory: string;
  readonly journal: Journal;
  readonly budget: LogBudget;
}

/** Both streams, in the order in which entries have them. */
export const STREAMS = ['stdout', 'stderr'] as const satisfies readonly OutputStream[];

/** Name of the file of a stream. */
export function logFileName(sequence: number, stream: OutputStream): string {
  return `log-${sequence}-${stream}`;
}

/** Keeps one exec. */
export class ExecStorage implements Holder {
  readonly meta: StartMeta;
  readonly #shelf: Shelf;
  readonly #log: ExecLog;
  #effective: Effective;
  #starting: Promise<void> | null = null;
  #place: Place | null = null;
  /** From when its end is being written. */
  #ending: Promise<Place> | null = null;
  #end: EndMeta | null = null;
  /** Bytes of the budget that it has. */
  #held = 0;
  #gone = false;

  constructor(shelf: Shelf, meta: StartMeta, log: ExecLog, effective: Effective) {
    this.meta = meta;
    this.#shelf = shelf;
    this.#log = log;
    this.#effective = effective;
  }

  /** It was found in the journal. */
  adopt(place: Place, end: EndMeta | null): void {
    this.#place = place;
    this.#starting = Promise.resolve();
    this.#end = end;
    this.#shelf.journal.adopt(this, place);
    if (end !== null) this.#hold(this.kept);
  }

  /** A running log goes on in the file that was found. */
  adoptFile(stream: OutputStream, file: LogFile, checkpoint: Checkpoint): void {
    this.#log[stream].useFile(file, checkpoint);
    this.#hold(this.#held + file.head + file.tail);
  }

  /** Whether it has ended and all of it is in the journal and its files. */
  get stored(): boolean {
    return this.#end !== null && !this.#gone;
  }

  /** Bytes of output that it keeps. */
  get kept(): number {
    return this.#log.stdout.kept + this.#log.stderr.kept;
  }

  /** Resolves when a restart of this process will know the exec. */
  started(): Promise<void> {
    // A start behind its end would be taken for the newer one, and the end says all that it does.
    if (this.#ending !== null) return this.#ending.then(ignore);
    if (this.#starting === null) {
      const starting = this.#appendStart();
      this.#starting = starting;
      starting.catch(() => {
        if (this.#starting === starting) this.#starting = null;
      });
    }
    return this.#starting;
  }

  /** Writes what is only in memory; `position` is asked for when it is. Returns the raw bytes that are safe then. */
  async flush(stream: OutputStream, position: () => RawPosition): Promise<number> {
    await this.started();
    const log = this.#log[stream];
    if (log.file === null) await this.#makeFile(stream, log);
    const { raw, redactor } = position();
    await log.flush(raw, redactor);
    return raw;
  }

  /** Resolves when a restart of this process will know the end and the output. `position` is that of each stream. */
  async finish(record: ExecRecord, position: (stream: OutputStream) => RawPosition): Promise<void> {
    for (const stream of STREAMS) {
      if (this.#log[stream].file !== null) await this.flush(stream, () => position(stream));
    }
    if (this.#gone) return this.remove();
    const meta: EndMeta = {
      ...this.meta,
      record: bareRecord(record),
      stdout: logMeta(this.#log.stdout),
      stderr: logMeta(this.#log.stderr),
    };
    this.#effective = record.effective;
    const parts = this.#endParts(meta, inlinePieces(this.#log.stdout), inlinePieces(this.#log.stderr));
    const place = await this.#appendEnd(parts);
    // The start may have been written, or moved, meanwhile.
    const before = this.#place;
    this.#end = meta;
    this.#place = place;
    if (before !== null) this.#shelf.journal.drop(this, before);
    for (const stream of STREAMS) {
      const log = this.#log[stream];
      await log.file?.close();
      log.settle(log.file ?? this.bytesOf(stream));
    }
    if (this.#gone) await this.remove();
    else this.#hold(this.kept);
  }

  /** Where the bytes of a log without a file are: in its entry. */
  bytesOf(stream: OutputStream): StoredBytes {
    return { read: (offset, length) => this.#readInline(stream, offset, length) };
  }

  /** Makes room for newer output: nothing of the logs is kept. */
  forgetOutput(): void {
    for (const stream of STREAMS) this.#log[stream].forget();
    this.#hold(0);
    // What is left of them is removed when the session is opened again.
    this.#removeFiles().catch(ignore);
  }

  /** Removes everything, and appends nothing to the journal from now on; idempotent. */
  async remove(): Promise<void> {
    this.#gone = true;
    if (this.#end !== null) for (const stream of STREAMS) this.#log[stream].forget();
    this.#hold(0);
    if (this.#place !== null) this.#shelf.journal.drop(this, this.#place);
    this.#place = null;
    await this.#removeFiles();
  }

  async rewrite(): Promise<EntryParts | null> {
    if (this.#gone) return null;
    if (this.#end === null) return this.#startParts();
    const meta = { ...this.#end, stdout: logMeta(this.#log.stdout), stderr: logMeta(this.#log.stderr) };
    const [stdout, stderr] = [
      await this.#storedPieces('stdout', meta.stdout),
      await this.#storedPieces('stderr', meta.stderr),
    ];
    this.#end = meta;
    return this.#endParts(meta, stdout, stderr);
  }

  moved(place: Place): void {
    if (this.#gone) this.#shelf.journal.drop(this, place);
    else this.#place = place;
  }

  async #appendStart(): Promise<void> {
    if (this.#gone) return;
    const place = await this.#shelf.journal.append(this.#startParts(), this);
    if (this.#gone || this.#end !== null) this.#shelf.journal.drop(this, place);
    else this.#place = place;
  }

  async #appendEnd(parts: EntryParts): Promise<Place> {
    this.#ending = this.#shelf.journal.append(parts, this);
    try {
      return await this.#ending;
    } catch (error) {
      this.#ending = null;
      throw error;
    }
  }

  #startParts(): EntryParts {
    const meta = JSON.stringify(this.meta);
    return { kind: 'start', meta, effective: effectiveText(this.#effective), stdout: [], stderr: [] };
  }

  #endParts(meta: EndMeta, stdout: readonly Uint8Array[], stderr: readonly Uint8Array[]): EntryParts {
    return { kind: 'end', meta: JSON.stringify(meta), effective: effectiveText(this.#effective), stdout, stderr };
  }

  async #makeFile(stream: OutputStream, log: StreamLog): Promise<void> {
    const { head, tail } = this.meta.window;
    // A reader that loses nothing needs room for what is on its way.
    const wanted = { head, tail: this.meta.block ? Math.max(tail, spoolBytes) : tail };
    const granted = this.#shelf.budget.reserve(wanted.head + wanted.tail);
    const share = Math.min(1, granted / Math.max(1, wanted.head + wanted.tail));
    const sizes = { head: Math.ceil(wanted.head * share), tail: Math.ceil(wanted.tail * share) };
    try {
      log.useFile(await LogFile.create(this.#path(stream), sizes), null);
      this.#held += granted;
    } catch (error) {
      this.#shelf.budget.release(granted);
      throw error;
    }
  }

  #hold(bytes: number): void {
    this.#shelf.budget.release(this.#held);
    this.#held = bytes;
    this.#shelf.budget.add(bytes);
  }

  #path(stream: OutputStream): string {
    return join(this.#shelf.directory, logFileName(this.meta.sequence, stream));
  }

  async #readInline(stream: OutputStream, offset: number, length: number): Promise<Uint8Array> {
    const meta = this.#end?.[stream];
    if (meta === undefined) return new Uint8Array();
    const at = offset < meta.headEnd ? offset : meta.headEnd + offset - meta.tailFrom;
    const most = Math.min(length, (offset < meta.headEnd ? meta.headEnd : meta.end) - offset);
    for (;;) {
      const place = this.#place;
      if (place === null) return new Uint8Array();
      const from = stream === 'stdout' ? place.stdoutAt : place.stderrAt;
      try {
        return await this.#shelf.journal.read(place.segment, most, from + at);
      } catch (error) {
        // Its entry was moved meanwhile.
        if (this.#place === place) throw error;
      }
    }
  }

  async #storedPieces(stream: OutputStream, meta: LogMeta): Promise<Uint8Array[]> {
    if (meta.file !== null) return [];
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < meta.end; ) {
      if (at >= meta.headEnd && at < meta.tailFrom) at = meta.tailFrom;
      if (at >= meta.end) break;
      const piece = await this.#readInline(stream, at, meta.end - at);
      if (piece.length === 0) throw new Error('the journal is shorter than its entry says');
      pieces.push(piece);
      at += piece.length;
    }
    return pieces;
  }

  async #removeFiles(): Promise<void> {
    for (const stream of STREAMS) {
      const { file } = this.#log[stream];
      if (file === null) continue;
      await file.close();
      await removeIfThere(file.path);
    }
  }
}

function ignore(): void {
  // See there.
}

function logMeta(log: StreamLog): LogMeta {
  const { headEnd, tailFrom } = log.range();
  const { file } = log;
  return { end: log.end, headEnd, tailFrom, file: file === null ? null : { head: file.head, tail: file.tail } };
}

function inlinePieces(log: StreamLog): readonly Uint8Array[] {
  return log.file === null ? log.inline() : [];
}
