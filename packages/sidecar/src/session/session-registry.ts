/** Which token opens which session. */
import { hash as digestOf, timingSafeEqual } from 'node:crypto';
import type { Session } from './session.ts';

/** Tokens are known by their hashes, so that finding one takes no longer the more of it is right. */
export class SessionRegistry {
  readonly #sessions = new Map<string, { readonly hash: Buffer; readonly session: Session }>();

  /** Whether any token opens anything. */
  get isEmpty(): boolean {
    return this.#sessions.size === 0;
  }

  /** From now on the token opens the session, and no other one. */
  add(token: string, session: Session): void {
    const hash = hashOf(token);
    this.#sessions.set(hash.toString('base64'), { hash, session });
  }

  /** The token opens nothing any more. */
  remove(token: string): void {
    this.#sessions.delete(hashOf(token).toString('base64'));
  }

  /** The session of a token; `null` where it opens none. */
  find(token: string): Session | null {
    const hash = hashOf(token);
    const found = this.#sessions.get(hash.toString('base64'));
    return found !== undefined && timingSafeEqual(found.hash, hash) ? found.session : null;
  }
}

function hashOf(token: string): Buffer {
  return digestOf('sha256', token, 'buffer');
}
