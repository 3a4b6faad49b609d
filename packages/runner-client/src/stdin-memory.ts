/** Memory of standard input that waits for commands to read it. */
import { BoxkiteError } from '@boxkite/protocol';

/** Who shares: a sandbox, or an exec whose sandbox is not known. */
export type StdinHolder = bigint | `exec ${bigint}`;

/** What a write that waits takes beside its bytes, its caller included. */
const WRITE_BYTES = 16 * 1024;

/**
 * Bounds what waits for all commands of a client. Each holder may have as much as is left for the others, so that one
 * that fills its share takes nobody else's.
 */
export class StdinMemory {
  readonly #most: number;
  readonly #held = new Map<StdinHolder, number>();
  #all = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** The memory of one write is held until the answer is called, once. Errors: `capacity`. */
  hold(holder: StdinHolder, bytes: number): () => void {
    const size = bytes + WRITE_BYTES;
    const before = this.#held.get(holder) ?? 0;
    if (before + size > this.#most - this.#all) throw full(this.#most);
    this.#add(holder, size);
    return () => this.#add(holder, -size);
  }

  #add(holder: StdinHolder, size: number): void {
    this.#all += size;
    const held = (this.#held.get(holder) ?? 0) + size;
    if (held > 0) this.#held.set(holder, held);
    else this.#held.delete(holder);
  }
}

function full(bytes: number): BoxkiteError {
  return new BoxkiteError('capacity', 'commands have not read the standard input that they were sent before', {
    hint: 'Send more when the commands have read their input, or kill them.',
    details: { limit: 'unread input', bytes },
  });
}
