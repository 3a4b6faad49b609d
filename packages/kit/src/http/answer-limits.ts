/** What answers may cost that are whole before they are sent: memory, for as long as their clients do not read them. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AccountOf } from './body-limits.ts';
import { sizes } from './deadlines.ts';

/** Streams of what is in memory already. */
const held = new WeakMap<object, number>();

interface Answer {
  readonly request: FastifyRequest;
  readonly account: string;
  readonly bytes: number;
}

/** Says of a stream that is to be an answer how many bytes it has in memory. */
export function holding<T extends object>(stream: T, bytes: number): T {
  held.set(stream, bytes);
  return stream;
}

/**
 * Cuts answers off that wait to be read where there are too many of them, the oldest first: its client had the longest to read
 * it, and a call that has been made is not to be refused for others. Small ones, and those that are sent as they are made, do
 * not count.
 */
export function boundAnswers(app: FastifyInstance, accountOf: AccountOf): void {
  const waiting = new WaitingAnswers();
  app.addHook('onSend', (request, reply, payload, done) => {
    const bytes = bytesOf(payload);
    // One whose client has gone is not kept for anybody, and tells of no end any more.
    if (bytes > sizes.freeBody && !reply.raw.closed) {
      const answer = { request, account: accountOf(request), bytes };
      waiting.add(answer);
      reply.raw.once('close', () => waiting.remove(answer));
    }
    done(null, payload);
  });
}

function bytesOf(payload: unknown): number {
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length;
  return typeof payload === 'object' && payload !== null ? (held.get(payload) ?? 0) : 0;
}

class WaitingAnswers {
  /** The oldest first. */
  readonly #answers = new Set<Answer>();
  readonly #used = new Map<string, number>();
  #all = 0;

  add(answer: Answer): void {
    this.#answers.add(answer);
    this.#count(answer.account, answer.bytes);
    const { account } = answer;
    while ((this.#used.get(account) ?? 0) > sizes.answersOfAccount && this.#cut(account, answer));
    while (this.#all > sizes.answers && this.#cut(this.#largest(answer), answer));
  }

  remove(answer: Answer): void {
    if (this.#answers.delete(answer)) this.#count(answer.account, -answer.bytes);
  }

  /** False where the account has no other answer than the one that is new. */
  #cut(account: string, fresh: Answer): boolean {
    for (const answer of this.#answers) {
      if (answer.account !== account || answer === fresh) continue;
      this.remove(answer);
      answer.request.log.warn({ bytes: answer.bytes }, 'an answer that was not read was cut off');
      answer.request.raw.socket.destroy();
      return true;
    }
    return false;
  }

  /** The account that holds most beside what is new. */
  #largest(fresh: Answer): string {
    const before = (account: string, used: number): number => used - (account === fresh.account ? fresh.bytes : 0);
    const [[account] = ['']] = [...this.#used].sort(([a, one], [b, two]) => before(b, two) - before(a, one));
    return account;
  }

  #count(account: string, bytes: number): void {
    this.#all += bytes;
    const used = (this.#used.get(account) ?? 0) + bytes;
    if (used > 0) this.#used.set(account, used);
    else this.#used.delete(account);
  }
}
