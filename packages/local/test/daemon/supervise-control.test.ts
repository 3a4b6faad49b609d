import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ControlReader, ControlType, controlFrame, MAX_BLOB_BYTES } from '../../src/daemon/control-frames.ts';
import { SuperviseControl } from '../../src/daemon/supervise-control.ts';

let base = '';
let server: Server;
let supervisor: Socket;
let control: SuperviseControl;

beforeEach(async () => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-control-'));
  server = createServer();
  server.listen(join(base, 's'));
  const accepted = once(server, 'connection');
  const socket = connect(join(base, 's'));
  [supervisor] = (await accepted) as [Socket];
  control = new SuperviseControl(socket);
});
afterEach(() => {
  supervisor.destroy();
  server.close();
  rmSync(base, { recursive: true, force: true });
});

/** What the supervisor received, until there are `count` frames. */
async function received(count: number) {
  const reader = new ControlReader();
  const frames = [];
  while (frames.length < count) {
    const [chunk] = (await once(supervisor, 'data')) as [Buffer];
    frames.push(...reader.push(chunk));
  }
  return frames;
}

const KEY = '00112233-4455-6677-8899-aabbccddeeff';

describe('frames', () => {
  test('survive any cut of the stream', () => {
    const bodies = [Buffer.alloc(0), randomBytes(1), randomBytes(5000), Buffer.alloc(0), randomBytes(70_000)];
    const stream = Buffer.concat(bodies.map((body, index) => controlFrame(index + 1, body)));
    for (const size of [1, 3, 7, 8, 9, 4096, stream.length]) {
      const reader = new ControlReader();
      const found = [];
      for (let at = 0; at < stream.length; at += size) found.push(...reader.push(stream.subarray(at, at + size)));
      expect(found.map(({ type }) => type)).toEqual([1, 2, 3, 4, 5]);
      for (const [index, { payload }] of found.entries())
        expect(payload.equals(bodies[index] ?? Buffer.of(9))).toBe(true);
    }
  });

  test.each([
    ['too long a payload', Buffer.from([0xff, 0xff, 0xff, 0, 0x80, 0, 0, 0])],
    ['a reserved byte', Buffer.from([0, 0, 0, 0, 0x80, 0, 1, 0])],
  ])('%s is no frame', (_what, bytes) => {
    expect(() => new ControlReader().push(bytes)).toThrow(TypeError);
  });
});

test('calls are the documented frames, and their answers come in order', async () => {
  const order: string[] = [];
  const calls = [
    control.put(KEY, Buffer.from('state')).then(() => order.push('put')),
    control.delete(KEY).then(() => order.push('delete')),
    control.ready().then(() => order.push('ready')),
  ];
  const [put, remove, ready] = await received(3);
  expect(put).toEqual({
    type: 1,
    payload: Buffer.concat([Buffer.from(KEY.replaceAll('-', ''), 'hex'), Buffer.from('state')]),
  });
  expect(remove).toEqual({ type: 2, payload: Buffer.from(KEY.replaceAll('-', ''), 'hex') });
  expect(ready).toEqual({ type: 4, payload: Buffer.alloc(0) });
  for (let answer = 0; answer < 3; answer += 1) supervisor.write(controlFrame(ControlType.done));
  await Promise.all(calls);
  expect(order).toEqual(['put', 'delete', 'ready']);
});

test('a list gives every blob by its key, and the next one begins anew', async () => {
  const blobs = new Map(Array.from({ length: 20 }, (_, index) => [randomUUID(), randomBytes(index * 50_000)] as const));
  for (const round of [blobs, new Map<string, Buffer>()]) {
    const listed = control.list();
    await received(1);
    for (const [key, blob] of round)
      supervisor.write(controlFrame(ControlType.blob, Buffer.from(key.replaceAll('-', ''), 'hex'), blob));
    supervisor.write(controlFrame(ControlType.done));
    const found = await listed;
    expect(found.size).toBe(round.size);
    for (const [key, blob] of round) expect(blob.equals(found.get(key) ?? Buffer.of(9))).toBe(true);
  }
});

test('what is refused fails that call alone', async () => {
  const [first, second] = [control.put(KEY, Buffer.of(1)), control.put(KEY, Buffer.of(2))];
  await received(2);
  supervisor.write(controlFrame(ControlType.refused, Buffer.from('too many')));
  supervisor.write(controlFrame(ControlType.done));
  await expect(first).rejects.toThrow(/too many/);
  await expect(second).resolves.toBeUndefined();
});

test('a blob that is too large is not sent', async () => {
  await expect(control.put(KEY, new Uint8Array(MAX_BLOB_BYTES + 1))).rejects.toMatchObject({ code: 'capacity' });
});

test('with the supervisor every call ends', async () => {
  const waiting = control.list();
  await received(1);
  supervisor.destroy();
  await control.lost;
  await expect(waiting).rejects.toMatchObject({ code: 'state_unavailable' });
  await expect(control.ready()).rejects.toMatchObject({ code: 'state_unavailable' });
});
