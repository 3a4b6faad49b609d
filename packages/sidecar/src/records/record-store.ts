/** The records of one sandbox, in the order of their start. */
import { BoxkiteError } from '@boxkite/protocol';
import type { RecordedExec } from './recorded-exec.ts';

/** Ended records that are kept; the oldest go first. */
export const MOST_ENDED = 1000;
/** Characters of the command lines of ended records, which are held in memory. */
export const MOST_ENDED_TEXT = 8 * 1024 * 1024;
/** Bytes of output of all records. */
export const MOST_LOG_BYTES = 64 * 1024 * 1024;

/** Finds execs by id, and keeps the number of ended ones bounded. */
export class RecordStore {
  readonly #execs = new Map<string, RecordedExec>();
  /** In the order of their end. */
  readonly #ended = new Set<RecordedExec>();
  #endedText = 0;
  /** Those of them that may have output. */
  readonly #givers = new Set<RecordedExec>();

  /** ms since 1970. */
  #lastEnd = 0;
  readonly #counts = { ended: 0, failed: 0 };

  /** Commands that have ended, and those of them that did not exit with 0. */
  get counts(): { readonly ended: number; readonly failed: number } {
    return this.#counts;
  }

  /** When the last command ended, ms since 1970; 0 for never. */
  get lastEnd(): number {
    return this.#lastEnd;
  }

  /** All, in the order of their start. */
  list(): readonly RecordedExec[] {
    return [...this.#execs.values()].sort((a, b) => a.meta.sequence - b.meta.sequence);
  }

  get running(): number {
    return this.#execs.size - this.#ended.size;
  }

  /** Errors: `not_found`. */
  get(execId: string): RecordedExec {
    const exec = this.#execs.get(execId);
    if (exec !== undefined) return exec;
    throw new BoxkiteError('not_found', 'there is no such exec', { details: { kind: 'exec' } });
  }

  add(exec: RecordedExec): void {
    this.#execs.set(exec.meta.exec_id, exec);
  }

  has(exec: RecordedExec): boolean {
    return this.#execs.get(exec.meta.exec_id) === exec;
  }

  /** Resolves when nothing of it is on disk. */
  forget(exec: RecordedExec): Promise<void> {
    this.#execs.delete(exec.meta.exec_id);
    if (this.#ended.delete(exec)) this.#endedText -= textOf(exec);
    this.#givers.delete(exec);
    return exec.storage.remove();
  }

  ended(exec: RecordedExec): void {
    if (this.#execs.get(exec.meta.exec_id) !== exec) return;
    this.#lastEnd = Date.now();
    this.#counts.ended += 1;
    if (exec.log.record?.exit_code !== 0) this.#counts.failed += 1;
    this.#ended.add(exec);
    this.#endedText += textOf(exec);
    this.#givers.add(exec);
    for (const oldest of this.#ended) {
      // The last one stays, whatever its size: who started it asks for it.
      if (oldest === exec || (this.#ended.size <= MOST_ENDED && this.#endedText <= MOST_ENDED_TEXT)) break;
      // What is left of its files is removed when the session is opened again.
      this.forget(oldest).catch(ignore);
    }
  }

  /** Lets go of the output of the record that ended first and has any. */
  giveWay(): boolean {
    for (const exec of this.#givers) {
      if (!exec.storage.stored) continue;
      this.#givers.delete(exec);
      if (exec.storage.kept === 0) continue;
      exec.storage.forgetOutput();
      return true;
    }
    return false;
  }
}

function textOf({ meta }: RecordedExec): number {
  return meta.argv.reduce((sum, word) => sum + word.length, meta.cwd.length);
}

function ignore(): void {
  // See there.
}
