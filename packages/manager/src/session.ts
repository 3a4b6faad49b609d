import type { SandboxPort, SandboxState } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { SandboxRow, SessionStore } from './store.ts';
import type { SandboxHandle } from './substrate.ts';

/** A start or a stop that runs. A destroy aborts it and waits for its end. */
export interface Operation {
  readonly kind: 'start' | 'stop';
  readonly abort: AbortController;
  /** Settles when nothing of the operation runs; never rejects. */
  readonly done: Promise<unknown>;
}

type Patch = Partial<Omit<SandboxRow, 'seq' | 'id' | 'account' | 'version'>>;

/** One sandbox in memory: what is true now, and what the store has of it. */
export class Session {
  /** What is true; the store may still be behind after `record`. */
  row: SandboxRow;
  handle: SandboxHandle | null = null;
  port: SandboxPort | null = null;
  /** Monotonic ms at which it is destroyed by itself. */
  deadline: number;
  operation: Operation | null = null;
  /** Settles when no extend runs; never rejects. */
  extending: Promise<unknown> = Promise.resolve();
  /** The one destroy that runs. */
  ending: Promise<void> | null = null;
  /** Nothing of it is left, and its place is given back. */
  finished = false;
  /** Why its sandbox went while an operation ran, which then says so. */
  lost: string | null = null;
  readonly #store: SessionStore;
  #stored: number;
  #behind = false;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(row: SandboxRow, deadline: number, store: SessionStore) {
    this.row = row;
    this.deadline = deadline;
    this.#store = store;
    this.#stored = row.version;
  }

  /** Whether the store still lacks what is true. */
  get behind(): boolean {
    return this.#behind;
  }

  /**
   * A transition: true only once it is stored. Resolves to false where the state is none of `from` when its turn comes.
   * Errors: `state_unavailable`, `conflict`; nothing has changed then.
   */
  move(from: readonly SandboxState[], patch: Patch): Promise<boolean> {
    return this.#inTurn(async () => {
      if (!from.includes(this.row.state)) return false;
      if (this.#behind) await this.#write(this.row);
      const next = { ...this.row, ...patch };
      await this.#write(next);
      this.row = { ...next, version: this.#stored };
      return true;
    });
  }

  /** A fact that is true whether or not the store takes it; `flush` tries again. */
  async record(patch: Patch): Promise<void> {
    await this.#inTurn(async () => {
      this.row = { ...this.row, ...patch };
      this.#behind = true;
    });
    await this.flush().catch((error: unknown) => {
      if (!(error instanceof BoxkiteError)) throw error;
    });
  }

  /** Brings the store up to what is true. Errors: `state_unavailable`, `conflict`. */
  flush(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#behind) await this.#write(this.row);
    });
  }

  async #write(row: SandboxRow): Promise<void> {
    const stored = await this.#store.update({ ...row, version: this.#stored + 1 }, this.#stored);
    if (!stored) {
      throw new BoxkiteError('conflict', 'somebody else has changed the record of the sandbox', {
        details: { sandbox: row.id },
      });
    }
    this.#stored += 1;
    this.#behind = false;
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(run);
    this.#queue = result.catch(() => undefined);
    return result;
  }
}
