/** Answers with lists of any length, in memory that does not grow with them, and without keeping others waiting. */
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { write } from './streams.ts';

/** Items that are answered at once; a longer list is sent as it is read. */
const AT_ONCE = 1000;

/** An object whose last field is a list. */
export interface ListAnswer {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Of the list. */
  readonly name: string;
  /** The fields before it. */
  readonly head: object;
}

/** Errors before the first thousand items are those of reading; later ones cut the answer off. */
export async function sendList<T>(
  { request, reply, name, head }: ListAnswer,
  items: AsyncIterable<T>,
): Promise<object> {
  const reading = items[Symbol.asyncIterator]();
  let waiting: T[] = [];
  const read = async (): Promise<boolean> => {
    while (waiting.length < AT_ONCE) {
      const next = await reading.next();
      if (next.done === true) return true;
      waiting.push(next.value);
    }
    return false;
  };
  if (await read()) return { ...head, [name]: waiting };
  reply.hijack();
  const response = reply.raw;
  const headers = reply.getHeaders();
  response.writeHead(200, { ...headers, 'content-type': 'application/json; charset=utf-8' } as Record<string, string>);
  const before = JSON.stringify({ ...head, [name]: [] }).slice(0, -2);
  try {
    let taken = await write(response, [Buffer.from(before + inner(waiting))]);
    for (let ended = false; taken && !ended; ) {
      // What has arrived already would be handled without a look at anybody else.
      await setImmediate();
      waiting = [];
      ended = await read();
      if (waiting.length > 0) taken = await write(response, [Buffer.from(`,${inner(waiting)}`)]);
    }
    if (taken) response.end(']}');
  } catch (error) {
    request.log.warn(error, 'a list broke off');
    response.destroy();
  } finally {
    await reading.return?.();
  }
  return reply;
}

/** The items as they stand between the brackets. */
function inner(items: readonly unknown[]): string {
  return JSON.stringify(items).slice(1, -1);
}
