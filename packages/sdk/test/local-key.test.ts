/** The key of a daemon that starts anew while a program that uses it goes on. */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LocalKeyTransport } from '../src/http/local-key-transport.ts';
import type { MessageChannel, Transport } from '../src/http/transport.ts';
import { UpgradeRefusedError } from '../src/http/transport.ts';
import { Sandbox } from '../src/sandbox.ts';
import { FakeHandle, FakeSandbox, script } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

let server: V1Server;
/** What the server takes. */
let right: string;

function key(letter: string): string {
  return `bxk_live_${letter.repeat(43)}`;
}

/** As a daemon does at its start. */
function placed(text: string): void {
  writeFileSync(join(dirname(server.url.slice('unix://'.length)), 'key'), `${text}\n`, { mode: 0o600 });
}

beforeEach(async () => {
  server = await V1Server.start(new FakeSandbox(async () => new FakeHandle(script([Buffer.from('out')]))));
  right = key('a');
  placed(right);
  server.hook = (request, response) => {
    if (request.headers.authorization === `Bearer ${right}`) return false;
    response.writeHead(401).end(JSON.stringify({ error: { code: 'invalid_api_key', message: 'no such key' } }));
    return true;
  };
});

afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

describe('a daemon that has another key', () => {
  test('is asked again with that', async () => {
    await using sandbox = await Sandbox.create({ url: server.url });
    for (const letter of ['b', 'c']) {
      right = key(letter);
      placed(right);
      server.seen.length = 0;
      expect((await sandbox.exec('x')).stdout).toBe('out');
      expect(server.seen.filter((line) => line.startsWith('POST'))).toHaveLength(2);
    }
  });

  test('is asked by all calls at once', async () => {
    await using sandbox = await Sandbox.create({ url: server.url });
    right = key('b');
    placed(right);
    const calls = Array.from({ length: 20 }, () => sandbox.exec('x'));
    for (const { stdout } of await Promise.all(calls)) expect(stdout).toBe('out');
  });

  test('is not asked again while the key is the one that it refuses, or is none', async () => {
    await using sandbox = await Sandbox.create({ url: server.url });
    right = key('b');
    for (const text of [key('a'), 'no key']) {
      placed(text);
      server.seen.length = 0;
      await expect(sandbox.exec('x')).rejects.toMatchObject({ code: 'invalid_api_key' });
      expect(server.seen).toHaveLength(1);
    }
    placed(right);
  });

  test('is not asked with it where the caller gave a key', async () => {
    await using sandbox = await Sandbox.create({ url: server.url, apiKey: right });
    const given = right;
    right = key('b');
    placed(right);
    await expect(sandbox.exec('x')).rejects.toMatchObject({ code: 'invalid_api_key' });
    right = given;
  });

  test('takes a stream with the next call, which a refused one has consumed', async () => {
    await using sandbox = await Sandbox.create({ url: server.url });
    right = key('b');
    placed(right);
    const stream = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x');
    };
    await expect(sandbox.files.write('a', stream())).rejects.toMatchObject({ code: 'invalid_api_key' });
    server.seen.length = 0;
    expect((await sandbox.exec('x')).stdout).toBe('out');
    expect(server.seen.filter((line) => line.startsWith('POST'))).toHaveLength(1);
  });
});

test('a refused WebSocket is asked for again with another key', async () => {
  let placedKey = 'a';
  const channel: MessageChannel = {
    send: () => Promise.resolve(),
    messages: (async function* (): AsyncGenerator<Uint8Array> {
      yield new Uint8Array();
    })(),
    close: () => undefined,
  };
  const tried: (string | undefined)[] = [];
  const open = async (used: string | undefined): Promise<Transport> => ({
    request: () => Promise.reject(new Error('not asked')),
    connect: async () => {
      tried.push(used);
      if (used === 'b') return channel;
      throw new UpgradeRefusedError({ status: used === 'c' ? 403 : 401, body: new Uint8Array() });
    },
    close: () => undefined,
  });
  const transport = await LocalKeyTransport.open({ key: () => placedKey, open });
  placedKey = 'b';
  expect(await transport.connect('/x', 'p')).toBe(channel);
  expect(tried).toEqual(['a', 'b']);
  const other = await LocalKeyTransport.open({ key: () => 'c', open });
  await expect(other.connect('/x', 'p')).rejects.toBeInstanceOf(UpgradeRefusedError);
});
