/** Answers that are not read: what they cost, and that a reader's own is not among those that are cut off. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { addBasics, holding, type Listening, listen, sizes } from '@boxkite/kit';
import { type FastifyInstance, fastify } from 'fastify';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

const MIB = 1024 * 1024;
const ANSWER = 24 * MIB;
const MOST = Math.floor(sizes.answersOfAccount / ANSWER);

let app: FastifyInstance;
let listening: Listening;
let port: number;
const sockets: Socket[] = [];
/** Answers of `/late`, which come when their clients have gone. */
let late = 0;

beforeAll(async () => {
  app = fastify();
  addBasics(app, {
    closing: new AbortController().signal,
    accountOf: (request) => String(request.headers['x-account'] ?? ''),
  });
  const bytes = Buffer.alloc(ANSWER, 'a');
  app.get('/text', () => bytes.toString('latin1'));
  app.get('/stream', (_request, reply) => reply.send(holding(Readable.from([bytes.subarray(0, 100), bytes]), ANSWER)));
  app.get('/late', async (_request, reply) => {
    await once(reply.raw, 'close');
    late += 1;
    return bytes.toString('latin1');
  });
  app.get('/claim', (request, reply) => {
    const endless = new Readable({ read: () => undefined });
    endless.push('x');
    return reply.send(holding(endless, Number(request.headers['x-claim'])));
  });
  listening = await listen(app, [{ on: { host: '127.0.0.1', port: 0 } }]);
  const address = listening.servers[0]?.address();
  if (typeof address !== 'object' || address === null) throw new Error('a TCP server has an address');
  ({ port } = address);
});

afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await Promise.all([listening.close(), app.close()]);
});

/** Asks, and reads nothing. `claim`: bytes that `/claim` says to hold. */
async function ask(path: string, account: string, claim = 0): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined);
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nx-account: ${account}\r\nx-claim: ${claim}\r\n\r\n`);
  socket.once('readable', () => undefined);
  await vi.waitFor(() => expect(socket.bytesRead).toBeGreaterThan(0), 20_000);
  return socket;
}

/** Bytes that come when it is read at last. */
async function rest(socket: Socket): Promise<number> {
  let bytes = 0;
  socket.on('data', (piece: Buffer) => {
    bytes += piece.length;
  });
  await vi.waitFor(() => expect(bytes >= ANSWER || socket.closed).toBe(true), 20_000);
  return bytes;
}

describe.each(['/text', '/stream'])('answers of %s that nobody reads', (path) => {
  it('are cut off beyond a bound, the oldest of the same account first', async () => {
    const other = await ask(path, 'other');
    const asked: Socket[] = [];
    for (let count = 0; count < MOST + 3; count += 1) asked.push(await ask(path, 'one'));
    const read = await Promise.all(asked.map(rest));
    expect(read.map((bytes) => bytes >= ANSWER)).toEqual(asked.map((_, place) => place >= 3));
    expect(await rest(other)).toBeGreaterThanOrEqual(ANSWER);
    for (const socket of [...asked, other]) socket.destroy();
  });
});

it('takes answers of any number that are read', async () => {
  for (let count = 0; count < MOST + 3; count += 1) {
    const answer = await fetch(`http://127.0.0.1:${port}/text`);
    expect((await answer.arrayBuffer()).byteLength).toBe(ANSWER);
  }
});

it('counts none whose client had gone before it was there', async () => {
  const waiting = await ask('/text', 'late');
  for (let count = 1; count <= MOST + 3; count += 1) {
    const socket = connect(port, '127.0.0.1');
    socket.write('GET /late HTTP/1.1\r\nhost: x\r\nx-account: late\r\n\r\n', () => socket.destroy());
    await vi.waitFor(() => expect(late).toBe(count), 20_000);
  }
  expect(await rest(waiting)).toBeGreaterThanOrEqual(ANSWER);
});

it('cuts off those of the account that holds most beside what is new, where all hold too much', async () => {
  const part = Math.floor(sizes.answers / 4);
  const asked: Socket[] = [];
  const cut = (): boolean[] => asked.map((socket) => socket.closed);
  for (let count = 1; count <= 4; count += 1) {
    const socket = await ask('/claim', `account-${count}`, part + count);
    // Its end is seen by who reads.
    socket.resume();
    asked.push(socket);
  }
  await vi.waitFor(() => expect(cut()).toEqual([false, false, true, false]), 20_000);
  asked.push(await ask('/claim', 'account-5', 2 * MIB));
  expect(cut()).toEqual([false, false, true, false, false]);
});
