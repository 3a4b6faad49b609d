/** A connection to a file agent that ends: whatever waits for it learns of it, and nothing of it is kept. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeFrame, frameTypes } from '../src/files/frames.ts';
import { FileAgentClient, FileAgentDisconnectedError } from '../src/files/index.ts';
import { RunnerFiles } from '../src/files-port/runner-files.ts';
import { RunnerClient } from '../src/index.ts';

let directory: string;
let server: Server;
let agents: Socket[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'boxkite-connection-'));
  agents = [];
  server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined).resume();
    agents.push(socket);
  });
  server.listen(join(directory, 'agent.sock'));
  await once(server, 'listening');
});

afterEach(async () => {
  for (const agent of agents) agent.destroy();
  server.close();
  await rm(directory, { recursive: true });
});

/** As a daemon connects. */
async function dial(): Promise<Socket> {
  const socket = connect({ path: join(directory, 'agent.sock'), allowHalfOpen: true });
  await once(socket, 'connect');
  return socket;
}

/** What waits for an answer, in each of the ways to wait for one. */
const waiting = {
  'a call': (client: FileAgentClient) => client.stat('/a'),
  'an upload': (client: FileAgentClient) => client.write('/a', Buffer.alloc(1 << 20)),
  'a stream': (client: FileAgentClient) => client.readAll('/a'),
  'a watch': (client: FileAgentClient) => client.watch('/a'),
};

describe('an agent that sends no more, while it takes what it is sent', () => {
  it.each(Object.entries(waiting))('ends %s that waits for it', async (_name, begin) => {
    const socket = await dial();
    const lost = begin(new FileAgentClient(socket));
    await expect.poll(() => agents.length).toBe(1);
    agents[0]?.end();
    await expect(lost).rejects.toBeInstanceOf(FileAgentDisconnectedError);
    expect(socket.destroyed).toBe(true);
  });
});

describe('a connection that has ended before its client takes it', () => {
  it.each(['end', 'close'])('ends each call: %s', async (event) => {
    const socket = await dial();
    await expect.poll(() => agents.length).toBe(1);
    const seen = once(socket, event);
    if (event === 'end') agents[0]?.end();
    else socket.destroy();
    socket.resume();
    await seen;
    const client = new FileAgentClient(socket);
    for (const begin of Object.values(waiting))
      await expect((async () => begin(client))()).rejects.toBeInstanceOf(FileAgentDisconnectedError);
    expect(socket.destroyed).toBe(true);
  });
});

async function all(items: AsyncIterable<unknown>): Promise<void> {
  for await (const item of items) throw new TypeError(`${String(item)} comes from nowhere`);
}

/** A file agent's answer that nothing is at the path of a call. */
function notFound(call: number): Buffer {
  const [code, errno, length] = [2, 2, 0];
  const payload = Buffer.alloc(10);
  payload.writeUInt16LE(code, 0);
  payload.writeInt32LE(errno, 2);
  payload.writeUInt32LE(length, 6);
  return encodeFrame(frameTypes.error, 0, call, payload);
}

/** Files of a sandbox whose agent is dialled by `open`; how often, and the means to let go of all. */
async function filesOver(open: (times: number) => Promise<Socket>) {
  let dialled = 0;
  class Runner extends RunnerClient {
    override connectFiles(): Promise<Socket> {
      dialled += 1;
      return open(dialled);
    }
  }
  const runner = new Runner(await dial(), { connect: dial, environment: {} });
  const files = new RunnerFiles({ ended: false, lost: runner.lost, call: (run) => run(runner) }, 1n);
  return {
    files,
    dialled: () => dialled,
    async [Symbol.asyncDispose]() {
      files.close(new BoxkiteError('generation_gone', 'it is configured anew'));
      await runner.close();
    },
  };
}

describe('the files of a sandbox', () => {
  it('do not use a connection that ended before they had it', async () => {
    await using over = await filesOver(async (times) => {
      const socket = await dial();
      if (times > 3) return socket;
      socket.destroy();
      await once(socket, 'close');
      return socket;
    });
    // Sent again twice.
    await expect(over.files.stat('/a')).rejects.toMatchObject({ code: 'io_error' });
    expect(over.dialled()).toBe(3);
    const next = expect(over.files.stat('/a', AbortSignal.timeout(300))).rejects.toMatchObject({ code: 'aborted' });
    await expect.poll(() => over.dialled()).toBe(4);
    await next;
  });

  it('keep nobody who leaves while their agent is started', async () => {
    const started = Promise.withResolvers<Socket>();
    await using over = await filesOver(() => started.promise);
    for (const begin of [
      (signal: AbortSignal) => over.files.stat('/a', signal),
      (signal: AbortSignal) => all(over.files.list('/a', signal)),
    ]) {
      const abort = new AbortController();
      const left = expect(begin(abort.signal)).rejects.toMatchObject({ code: 'aborted' });
      abort.abort();
      await left;
    }
    const before = agents.length;
    const stays = expect(over.files.stat('a')).rejects.toMatchObject({ code: 'file_not_found' });
    started.resolve(await dial());
    await expect.poll(() => agents.length).toBe(before + 1);
    agents.at(-1)?.write(notFound(1));
    await stays;
    expect(over.dialled()).toBe(1);
  });

  /** Each that may be sent twice, with what it sends to the second agent. */
  const repeated: Readonly<Record<string, (files: RunnerFiles) => Promise<unknown>>> = {
    stat: (files) => files.stat('a'),
    'a write of bytes': (files) => files.write('a', Buffer.from('x')),
    list: (files) => all(files.list('a')),
    read: (files) => all(files.read('a')),
  };

  it.each(Object.entries(repeated))('send %s to the next agent where the first one goes', async (_name, begin) => {
    await using over = await filesOver(dial);
    const before = agents.length;
    const refused = expect(begin(over.files)).rejects.toMatchObject({ code: 'file_not_found' });
    await expect.poll(() => agents.length).toBe(before + 1);
    agents[before]?.end();
    await expect.poll(() => agents.length).toBe(before + 2);
    agents[before + 1]?.end(notFound(1));
    await refused;
    expect(over.dialled()).toBe(2);
  });
});
