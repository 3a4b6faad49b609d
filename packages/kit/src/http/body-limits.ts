/** What bodies may cost: memory for as long as they are there, and connections on which the rest never comes. */
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { sizes, times } from './deadlines.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BRACKET = 0x5b;
const BRACE = 0x7b;
const OPENINGS = ['[', '{'] as const;

/** Refuses what would take far more memory as values than it does as text. Errors: `invalid_request`. */
export function refuseManyContainers(text: string): void {
  if (!hasManyContainers(text, sizes.containers)) return;
  throw new BoxkiteError('invalid_request', `the body has more than ${sizes.containers} arrays and objects`, {
    details: { field: 'request' },
  });
}

/** Whether JSON has more arrays and objects, however they are nested; a short text never has too many. */
export function hasManyContainers(text: string, most: number): boolean {
  // The system finds a character faster than a loop does, and most bodies have few of these, in or outside of their texts.
  if (text.length <= sizes.freeBody || OPENINGS.every((opening) => !occursOver(text, opening, most / 2))) return false;
  let found = 0;
  let inText = false;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (inText) {
      if (unit === BACKSLASH) at += 1;
      else if (unit === QUOTE) inText = false;
    } else if (unit === QUOTE) inText = true;
    else if (unit === BRACKET || unit === BRACE) found += 1;
  }
  return found > most;
}

function occursOver(text: string, character: string, most: number): boolean {
  let found = 0;
  for (let at = text.indexOf(character); at !== -1; at = text.indexOf(character, at + 1)) {
    found += 1;
    if (found > most) return true;
  }
  return false;
}

/** Whose bodies count together. */
export type AccountOf = (request: FastifyRequest) => string;

/** Bodies that are collected before they are handled count against a bound until they are answered; small ones never wait. */
export function boundMemory(app: FastifyInstance, accountOf: AccountOf): void {
  const used = new Map<string, number>();
  let all = 0;
  app.addHook('preParsing', (request, reply, payload, done) => {
    const size = collected(request);
    if (size <= sizes.freeBody) return done(null, payload);
    const account = accountOf(request);
    const before = used.get(account) ?? 0;
    if (all + size > sizes.bodies || before + size > sizes.bodiesOfAccount) {
      reply.header('connection', 'close');
      return done(tooMany(all + size > sizes.bodies ? sizes.bodies : sizes.bodiesOfAccount));
    }
    all += size;
    used.set(account, before + size);
    reply.raw.once('close', () => {
      all -= size;
      const rest = (used.get(account) ?? 0) - size;
      if (rest > 0) used.set(account, rest);
      else used.delete(account);
    });
    done(null, payload);
  });
}

/** Bytes that are held at once: files are handed on as they come, and other methods have no body. */
function collected({ method, headers }: FastifyRequest): number {
  if (method !== 'POST' && method !== 'DELETE') return 0;
  if (headers['transfer-encoding'] !== undefined) return sizes.json;
  return Number(headers['content-length'] ?? 0);
}

function tooMany(limit: number): BoxkiteError {
  return new BoxkiteError('capacity', 'other large bodies are still being received or handled', {
    hint: 'Wait until earlier calls are answered; files of any size go by `/files/content`.',
    details: { limit: 'request bodies', bytes: limit },
  });
}

/** A body that is still on its way when its request is answered has little time left, and nobody who reads it. */
export function endUnread(app: FastifyInstance): void {
  app.addHook('onResponse', (request, _reply, done) => {
    const { raw } = request;
    if (!raw.complete) {
      // Who sends a long body reads the answer when it has sent it.
      raw.resume();
      const timer = setTimeout(() => raw.socket.destroy(), times.unreadMs);
      timer.unref();
      const { socket } = raw;
      const stop = (): void => {
        clearTimeout(timer);
        socket.off('close', stop);
      };
      raw.once('end', stop);
      socket.once('close', stop);
    }
    done();
  });
}
