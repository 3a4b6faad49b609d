import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { clientSignal } from '@boxkite/kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const answers: ServerResponse[] = [];
const server = createServer((_request, response) => {
  answers.push(response);
});

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
});

afterAll(() => {
  server.close();
});

/** A call that has arrived, on both sides. */
async function call() {
  const { port } = server.address() as AddressInfo;
  const client = request({ port, host: '127.0.0.1', agent: false });
  client.on('error', () => undefined);
  const arrived = once(server, 'request');
  client.end();
  await arrived;
  return { client, response: answers.pop() as ServerResponse };
}

describe('the signal of a client', () => {
  const running = new AbortController().signal;

  it('is aborted when the client leaves, before it is asked for or after', async () => {
    for (const early of [false, true]) {
      const { client, response } = await call();
      const closed = once(response, 'close');
      const before = early ? null : clientSignal(response, running);
      expect(before?.aborted ?? false).toBe(false);
      client.destroy();
      await closed;
      expect((before ?? clientSignal(response, running)).aborted).toBe(true);
    }
  });

  it('is not aborted by an answer that is complete', async () => {
    const { client, response } = await call();
    const signal = clientSignal(response, running);
    const closed = once(response, 'close');
    response.end('all');
    const [answer] = (await once(client, 'response')) as [IncomingMessage];
    answer.resume();
    await closed;
    expect(signal.aborted).toBe(false);
  });

  it('is aborted by the end of the server, also where that came first', async () => {
    const { client, response } = await call();
    const closing = new AbortController();
    const signal = clientSignal(response, closing.signal);
    closing.abort();
    expect([signal.aborted, clientSignal(response, closing.signal).aborted]).toEqual([true, true]);
    client.destroy();
  });
});
