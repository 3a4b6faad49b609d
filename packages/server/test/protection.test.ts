/** Clients that are slow, many or gone, beside one that is well and must not notice. */
import { connect, type Socket } from 'node:net';
import { v1 } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { bodyOf, TestDaemon, until } from './harness.ts';

let daemon: TestDaemon;
let id: string;
/** ms that an exec takes beside nothing else. */
let alone: number;
const sockets: Socket[] = [];
beforeAll(async () => {
  daemon = await TestDaemon.start();
  id = await daemon.sandbox();
  await execMs();
  alone = await execMs();
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await daemon.close();
});

function open(): Socket {
  const socket = connect(daemon.socket);
  socket.on('error', () => undefined);
  sockets.push(socket);
  return socket;
}

/** ms that an exec takes, the median of some. */
async function execMs(count = 21): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const start = performance.now();
    const answer = await daemon.call('POST', `/v1/sandboxes/${id}/exec`, { body: { command: 'true' } });
    expect(answer.status).toBe(200);
    times.push(performance.now() - start);
  }
  return times.sort((one, two) => one - two)[Math.floor(count / 2)] ?? 0;
}

/** Beside whatever is open now an exec takes some of the times that it takes alone, and does not wait for any of it. */
async function expectUnharmed(): Promise<void> {
  expect(await execMs()).toBeLessThan(50 * alone);
}

describe('others are unharmed by', () => {
  it('500 sockets that say nothing', async () => {
    const idle = Array.from({ length: 500 }, open);
    await until(() => idle.every((socket) => socket.readyState === 'open'));
    await expectUnharmed();
    for (const socket of idle) socket.destroy();
  });

  it('100 requests that arrive a byte at a time', async () => {
    const slow = Array.from({ length: 100 }, open);
    let sent = 0;
    const text = `POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\n`;
    const timer = setInterval(() => {
      for (const socket of slow) if (socket.writable) socket.write(text[sent % text.length] ?? 'x');
      sent += 1;
    }, 10);
    await expectUnharmed();
    clearInterval(timer);
    for (const socket of slow) socket.destroy();
  });

  it('20 readers that read nothing of 32 MiB each', async () => {
    const eid = await daemon.exec(id, { command: `bytes ${32 * 1024 * 1024}` });
    const before = process.memoryUsage().rss;
    const readers = Array.from({ length: 20 }, () => {
      const socket = open();
      socket.pause();
      socket.write(
        `GET /v1/sandboxes/${id}/execs/${eid}/output?stream=stdout HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\n\r\n`,
      );
      return socket;
    });
    await expectUnharmed();
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
    for (const socket of readers) socket.destroy();
  });

  it('clients that vanish in the middle of everything', async () => {
    for (let n = 0; n < 100; n += 1) {
      const socket = open();
      const request = `POST /v1/sandboxes/${id}/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n{"command":"hang"}`;
      socket.write(request.slice(0, 1 + ((n * 7) % request.length)));
      setTimeout(() => socket.destroy(), n % 20);
    }
    await expectUnharmed();
    await until(() => daemon.substrate.find(id)?.execs.running === 0);
  });
});

const MIB = 1024 * 1024;

/** Begins a body that does not come; gives what is answered so far. */
function beginBody(key: string | null, length: number, path = `/v1/sandboxes/${id}/exec`) {
  const socket = open();
  const got = { text: '', closed: false };
  socket.on('data', (part) => {
    got.text += part.toString();
  });
  socket.on('close', () => {
    got.closed = true;
  });
  const authorization = key === null ? '' : `authorization: Bearer ${key}\r\n`;
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\n${authorization}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n{`,
  );
  return { socket, got };
}

/** Waits while time is not the machine's. */
async function turnsUntil(what: () => boolean): Promise<void> {
  for (let n = 0; n < 100_000; n += 1) {
    if (what()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('it did not come to hold');
}

describe('memory is bounded', () => {
  it('for bodies of many arrays and objects', async () => {
    const path = `/v1/sandboxes/${id}/exec`;
    const headers = { 'content-type': 'application/json' };
    for (const body of [
      `{"command":"true","x":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
      `{"command":"true","x":[${'{},'.repeat(50_000)}1]}`,
    ])
      await daemon.refused(422, 'invalid_request', 'POST', path, { body, headers });
    const stdin = '[{\\" '.repeat(50_000);
    const taken = await daemon.call('POST', path, { body: { command: 'true', stdin } });
    expect(taken.status, taken.text).toBe(200);
  });

  it('for large bodies of one account, while others and small ones are taken', async () => {
    const other = await daemon.call('POST', '/v1/api-keys', { body: { name: 'other', account: 'other' } });
    const { key } = v1.createdKey.parse(other.json);
    const held = Array.from({ length: 16 }, () => beginBody(daemon.key, 16 * MIB));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const refused = beginBody(daemon.key, MIB);
    await until(() => refused.got.closed);
    expect(refused.got.text).toMatch(/^HTTP\/1\.1 429 /);
    expect(bodyOf(refused.got.text.slice(refused.got.text.indexOf('\r\n\r\n'))).error.code).toBe('capacity');
    await expectUnharmed();
    const body = { label: 'x', volume_mounts: {}, padding: 'x'.repeat(MIB) };
    expect((await daemon.call('POST', '/v1/sandboxes', { key, body })).status).toBe(201);
    expect(held.some(({ got }) => got.text !== '')).toBe(false);
    for (const { socket } of held) socket.destroy();
    await until(async () => (await daemon.call('POST', '/v1/sandboxes', { body })).status === 201);
  });
});

describe('a connection ends', () => {
  it('whose request was refused without a key, when the rest of its body does not come', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      for (const [path, status] of [
        ['/v1/sandboxes', 401],
        ['/nothing', 404],
        ['/health', 405],
      ] as const) {
        const { got } = beginBody(null, 1000, path);
        await turnsUntil(() => got.text !== '');
        expect(got.text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
        await turnsUntil(() => {
          vi.advanceTimersByTime(1000);
          return got.closed;
        });
      }
    } finally {
      vi.useRealTimers();
    }
  });

  it('that never completes its headers, by the shape of errors', async () => {
    const socket = open();
    let got = '';
    socket.on('data', (part) => {
      got += part.toString();
    });
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    socket.write('GET /health HTTP/1.1\r\nhost: x\r\n');
    await closed;
    expect(got).toMatch(/^HTTP\/1\.1 408 /);
    expect(bodyOf(got.slice(got.indexOf('\r\n\r\n'))).error.code).toBe('request_timeout');
  });

  it('whose body never comes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const socket = open();
      let got = '';
      socket.on('data', (part) => {
        got += part.toString();
      });
      let isClosed = false;
      socket.on('close', () => {
        isClosed = true;
      });
      socket.write(
        `POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`,
      );
      await turnsUntil(() => {
        vi.advanceTimersByTime(1000);
        return isClosed;
      });
      expect(got).toMatch(/^HTTP\/1\.1 408 /);
    } finally {
      vi.useRealTimers();
    }
  });
});

it('a stream that is silent says that it lives', async () => {
  const eid = await daemon.exec(id, { command: 'hang' });
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  try {
    const got: string[] = [];
    const request = daemon.begin(
      'GET',
      `/v1/sandboxes/${id}/execs/${eid}/output`,
      { headers: { accept: 'text/event-stream' } },
      (response) => {
        got.push('began ');
        response.on('data', (part: Buffer) => got.push(part.toString()));
        response.on('error', () => undefined);
      },
    );
    request.on('error', () => undefined);
    await until(() => got.length === 1);
    vi.advanceTimersByTime(10_001);
    await until(() => got.join('') === 'began : keep-alive\n\n');
    request.destroy();
  } finally {
    vi.useRealTimers();
  }
});
