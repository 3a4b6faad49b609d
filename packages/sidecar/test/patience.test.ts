import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { keepWaiting } from '../src/routes/patience.ts';

const SLOW_MS = 200;

/** Statuses of the interim answers to a request, and the answer, which comes after so many of these. */
async function ask(path: string, agent: string | undefined, awaited = 0) {
  const interim: number[] = [];
  const heard = Promise.withResolvers<void>();
  const app = fastify();
  keepWaiting(app, 20);
  app.get('/slow', async () => {
    await (awaited > 0 ? heard.promise : delay(SLOW_MS));
    return 'done';
  });
  app.get('/streamed', async (_request, reply) => {
    reply.hijack();
    reply.raw.write('begun,');
    setTimeout(() => reply.raw.end('done'), SLOW_MS);
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  const headers = agent === undefined ? {} : { 'user-agent': agent };
  const sent = request({ port, path, headers, agent: false }).end();
  sent.on('information', ({ statusCode }) => {
    if (interim.push(statusCode) === awaited) heard.resolve();
  });
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  let body = '';
  for await (const chunk of answer.setEncoding('utf8')) body += String(chunk);
  return { interim, status: answer.statusCode, body };
}

test('a client that gives up in silence hears something while it waits', async () => {
  const { interim, status, body } = await ask('/slow', 'python-httpx/0.28.1', 3);
  expect(interim.length).toBeGreaterThan(2);
  expect(new Set(interim)).toEqual(new Set([102]));
  expect([status, body]).toEqual([200, 'done']);
});

test.each([undefined, 'Python-urllib/3.11', 'python-requests/2.32', 'node', 'curl/8'])(
  '%s hears nothing',
  async (agent) => {
    expect(await ask('/slow', agent)).toEqual({ interim: [], status: 200, body: 'done' });
  },
);

test('nothing comes between the parts of an answer', async () => {
  const { interim, body } = await ask('/streamed', 'python-httpx/0.28.1');
  expect([interim, body]).toEqual([[], 'begun,done']);
});
