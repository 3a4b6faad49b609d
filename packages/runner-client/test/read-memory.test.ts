import { Buffer } from 'node:buffer';
import { createConnection, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { hold, keep, letGo, own, ReadMemory } from '../src/read-memory.ts';

const SIZES = { block: 4096, leastRead: 1024, leastHeld: 16 };

/** What a socket is sent, read into `memory`, with a delay after each read so that it is a read of its own. */
async function send(memory: ReadMemory, parts: readonly Buffer[]): Promise<void> {
  const server = createServer();
  const accepted = new Promise<Socket>((resolve) => {
    server.once('connection', resolve);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('no port');
  const client = createConnection({ port: address.port, host: '127.0.0.1', onread: memory.options });
  const peer = await accepted;
  const ended = new Promise((resolve) => {
    client.once('end', resolve);
  });
  for (const part of parts) {
    peer.write(part);
    await delay(5);
  }
  peer.end();
  await ended;
  client.destroy();
  server.close();
}

/** A thousand bytes each, every one of them told by its place. */
const PARTS = Array.from({ length: 40 }, (_, part) =>
  Buffer.from(Array.from({ length: 1000 }, (_each, at) => byteAt(1000 * part + at))),
);

function byteAt(place: number): number {
  return (place + Math.floor(place / 256)) % 251;
}

interface Kept {
  readonly from: number;
  readonly view: Buffer;
}

function check({ from, view }: Kept): void {
  const wrong = view.findIndex((byte, index) => byte !== byteAt(from + index));
  if (wrong >= 0) throw new Error(`another byte at ${from + wrong}`);
}

it('memory that is held keeps its bytes, and memory that was let go is read into again', async () => {
  const memory = new ReadMemory(SIZES);
  const held: Kept[] = [];
  const buffers = new Set<unknown>();
  let from = 0;
  memory.deliverTo((data) => {
    buffers.add(data.buffer);
    held.push({ from, view: keep(data) });
    from += data.length;
    for (const each of held) check(each);
    const [oldest] = held;
    if (held.length <= 6 || oldest === undefined) return;
    letGo(oldest.view);
    held.shift();
  });
  await send(memory, PARTS);
  expect(from).toBe(40_000);
  // Seven reads at one time, each in a block of its own at worst, however many came.
  expect(buffers.size).toBeLessThanOrEqual(8);
});

it('memory that nobody lets go of is never read into again', async () => {
  const memory = new ReadMemory(SIZES);
  const kept: Kept[] = [];
  let from = 0;
  memory.deliverTo((data) => {
    kept.push({ from, view: keep(data) });
    from += data.length;
  });
  await send(memory, PARTS);
  expect(from).toBe(40_000);
  for (const each of kept) check(each);
});

it('little data is copied, and so is what is to be kept for good', async () => {
  const memory = new ReadMemory(SIZES);
  const views: { readonly read: Buffer; readonly little: Buffer; readonly good: Uint8Array }[] = [];
  memory.deliverTo((read) => {
    hold(read);
    views.push({ read, little: keep(read.subarray(0, 8)), good: own(read) });
    letGo(read);
  });
  await send(memory, [Buffer.from('first part of all'), Buffer.from('the second of two')]);
  const [first, second] = views;
  expect(first?.read.buffer).toBe(second?.read.buffer);
  expect(first?.read.toString()).toBe('the second of two');
  expect(first?.little.toString()).toBe('first pa');
  expect(Buffer.from(first?.good ?? []).toString()).toBe('first part of all');
  const elsewhere = Buffer.from('elsewhere');
  expect([keep(elsewhere), own(elsewhere)]).toEqual([elsewhere, elsewhere]);
  expect(own(elsewhere)).toBe(elsewhere);
});

it('what comes before there is a sink is not lost', async () => {
  const memory = new ReadMemory(SIZES);
  await send(memory, [Buffer.from('early, '), Buffer.from('later')]);
  let text = '';
  memory.deliverTo((data) => {
    text += data.toString();
  });
  expect(text).toBe('early, later');
});
