/** Answers of a file agent that are left while the agent says nothing. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeHeader, encodeFrame, frameTypes, headerBytes } from '../src/files/frames.ts';
import { FileAgentClient } from '../src/files/index.ts';

const NAMES = new Map<number, string>(Object.entries(frameTypes).map(([name, type]) => [type, name]));

let directory: string;
let server: Server;
let client: FileAgentClient;
/** The types of what the agent was sent. */
let seen: (string | undefined)[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'boxkite-leave-'));
  seen = [];
  // An agent that says nothing but that a watch is in place.
  server = createServer((socket: Socket) => {
    let have = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      have = Buffer.concat([have, chunk]);
      while (have.length >= headerBytes) {
        const { type, id, length } = decodeHeader(have);
        if (have.length < headerBytes + length) return;
        seen.push(NAMES.get(type));
        if (type === frameTypes.watch) socket.write(encodeFrame(frameTypes.meta, 0, id, new Uint8Array()));
        have = have.subarray(headerBytes + length);
      }
    });
  });
  server.listen(join(directory, 'agent.sock'));
  await once(server, 'listening');
  const socket = connect(join(directory, 'agent.sock'));
  await once(socket, 'connect');
  client = new FileAgentClient(socket);
});

afterEach(async () => {
  client.close();
  server.close();
  await rm(directory, { recursive: true });
});

const answers: Readonly<Record<string, () => AsyncGenerator | Promise<AsyncGenerator>>> = {
  list: () => client.list('/a'),
  walk: () => client.walk('/a'),
  search: () => client.search('/a', 'x'),
  watch: () => client.watch('/a'),
  archiveOut: () => client.archiveOut('/a'),
  read: () => client.read('/a')[Symbol.asyncIterator](),
};

describe('an answer that is awaited', () => {
  it.each(Object.entries(answers))('ends at once where it is left: %s', async (name, begin) => {
    const answer = await begin();
    const awaited = expect(answer.next()).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => seen).toEqual([name]);
    expect(await answer.return(undefined)).toEqual({ done: true, value: undefined });
    await awaited;
    await expect.poll(() => seen).toEqual([name, 'cancel']);
  });

  it('ends where its reading is closed', async () => {
    const reading = client.read('/a');
    const waiting = [reading.meta(), reading.all()].map((one) =>
      expect(one).rejects.toMatchObject({ name: 'AbortError' }),
    );
    reading.close();
    await Promise.all(waiting);
  });
});

describe('an answer of which nothing was asked', () => {
  it.each(['watch', 'read'])('ends where it is left: %s', async (name) => {
    const answer = await answers[name]?.();
    await answer?.return(undefined);
    await expect.poll(() => seen).toEqual([name, 'cancel']);
  });
});
