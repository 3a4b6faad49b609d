/** What the runner keeps of an exec while nobody reads it, seen by raw frames: nothing is lost, and what is dropped is said. */

import type { Socket } from 'node:net';
import {
  commitPayload,
  eventually,
  execPayload,
  frame,
  frames,
  lane,
  type RawFrame,
  sleep,
  startRunner,
  type TestRunner,
  type TestSandbox,
  TYPE,
  u64,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** What one consumer was told of an exec's standard output. */
interface Heard {
  readonly pieces: (readonly [from: number, to: number, kind: 'bytes' | 'gap'])[];
  readonly bytes: Buffer[];
  ended: RawFrame | undefined;
}

async function consume(
  source: AsyncIterator<RawFrame, void>,
  heard: Heard,
  until: (heard: Heard) => boolean,
): Promise<void> {
  while (!until(heard)) {
    const { value, done } = await source.next();
    if (done === true || value === undefined) return;
    if (value.type === TYPE.output && value.payload.readUInt8(8) === 1) {
      const offset = Number(value.payload.readBigUInt64LE(16));
      const bytes = value.payload.subarray(24);
      heard.pieces.push([offset, offset + bytes.length, 'bytes']);
      heard.bytes.push(Buffer.from(bytes));
    } else if (value.type === TYPE.gap && value.payload.readUInt8(8) === 1) {
      heard.pieces.push([Number(value.payload.readBigUInt64LE(16)), Number(value.payload.readBigUInt64LE(24)), 'gap']);
    } else if (value.type === TYPE.ended) heard.ended = value;
    else if (value.type === TYPE.error)
      throw new Error(`error ${value.payload.readUInt16LE(0)} ${value.payload.subarray(8).toString('latin1')}`);
  }
}

const nothing = (): Heard => ({ pieces: [], bytes: [], ended: undefined });
const wholeEnd = (heard: Heard): boolean => heard.ended !== undefined;

async function answer(source: AsyncIterator<RawFrame, void>, type: number): Promise<RawFrame> {
  for (;;) {
    const { value, done } = await source.next();
    if (done === true || value === undefined) throw new Error('the connection ended');
    if (value.type === type) return value;
    if (value.type === TYPE.error) throw new Error(`error ${value.payload.readUInt16LE(0)}`);
  }
}

describe(`records, ${lane}`, () => {
  let runner: TestRunner;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    runner = await startRunner();
    sandbox = await runner.create();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  const start = async (
    argv: readonly string[],
    overflow: 'drop' | 'block',
  ): Promise<{ socket: Socket; source: AsyncGenerator<RawFrame, void>; exec: bigint }> => {
    const socket = await runner.connect();
    const source = frames(socket);
    socket.write(frame(TYPE.exec, 1, execPayload(sandbox.number, argv, { overflow })));
    const started = await answer(source, TYPE.started);
    expect(started.request).toBe(1);
    return { socket, source, exec: started.payload.readBigUInt64LE(0) };
  };

  const attach = async (exec: bigint): Promise<{ socket: Socket; source: AsyncGenerator<RawFrame, void> }> => {
    const socket = await runner.connect();
    const source = frames(socket);
    socket.write(frame(TYPE.attach, 2, Buffer.concat([u64(exec), Buffer.from([0])])));
    await answer(source, TYPE.attached);
    return { socket, source };
  };

  it('are kept, with every byte and the end, for the next consumer', async () => {
    const { socket, exec } = await start(
      ['/bin/sh', '-c', 'i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done; exit 5'],
      'drop',
    );
    socket.destroy();
    await eventually(
      async () => (await runner.client.list()).execs.find((entry) => BigInt(entry.exec_id) === exec)?.state === 'ended',
      10_000,
      () => 'it does not end',
    );
    const again = await attach(exec);
    const heard = nothing();
    await consume(again.source, heard, wholeEnd);
    expect(Buffer.concat(heard.bytes).toString()).toBe(
      Array.from({ length: 20_000 }, (_, index) => `line ${index}\n`).join(''),
    );
    expect(heard.ended?.payload.readInt32LE(12)).toBe(5);
    again.socket.write(frame(TYPE.commit, 3, commitPayload(exec, 0n, 0n, true)));
    await eventually(
      async () => !(await runner.client.list()).execs.some((entry) => BigInt(entry.exec_id) === exec),
      2000,
      () => 'the record stays',
    );
    again.socket.destroy();
  });

  it('drop the oldest bytes of a command whose reader is away, and name the gap', async () => {
    const { socket, exec } = await start(
      ['/usr/bin/python3', '-I', '-S', '-c', 'import sys\nfor i in range(500000): sys.stdout.write("%015d\\n" % i)'],
      'drop',
    );
    socket.destroy();
    await eventually(
      async () => (await runner.client.list()).execs.find((entry) => BigInt(entry.exec_id) === exec)?.state === 'ended',
      20_000,
      () => 'volume stopped the command',
    );
    const again = await attach(exec);
    const heard = nothing();
    await consume(again.source, heard, wholeEnd);
    again.socket.destroy();
    let next = 0;
    for (const [from, to] of heard.pieces) {
      expect(from).toBe(next);
      next = to;
    }
    expect(next).toBe(8_000_000);
    const gaps = heard.pieces.filter(([, , kind]) => kind === 'gap');
    expect(gaps.length).toBeGreaterThan(0);
    const kept = Buffer.concat(heard.bytes);
    expect(kept.length).toBeGreaterThan(256 << 10);
    expect(kept.length).toBeLessThanOrEqual(3 << 20);
    expect(kept.subarray(-16).toString()).toBe('000000000499999\n');
  });

  it('stop a command with overflow block whose reader is away, and lose nothing', async () => {
    const { socket, exec } = await start(
      ['/usr/bin/python3', '-I', '-S', '-c', 'import sys\nfor i in range(500000): sys.stdout.write("%015d\\n" % i)'],
      'block',
    );
    socket.destroy();
    await sleep(700);
    const waiting = (await runner.client.list()).execs.find((entry) => BigInt(entry.exec_id) === exec);
    expect(waiting).toMatchObject({ state: 'running', attached: false });
    expect(waiting?.stdout.produced).toBeLessThan(4 << 20);
    const again = await attach(exec);
    const heard = nothing();
    let committed = 0;
    while (heard.ended === undefined) {
      const before = heard.pieces.length;
      await consume(again.source, heard, (now) => now.pieces.length > before || now.ended !== undefined);
      const to = heard.pieces.at(-1)?.[1] ?? 0;
      if (to > committed) {
        committed = to;
        again.socket.write(frame(TYPE.commit, 3, commitPayload(exec, BigInt(to), 0n, false)));
      }
    }
    again.socket.destroy();
    expect(heard.pieces.every(([, , kind]) => kind === 'bytes')).toBe(true);
    const text = Buffer.concat(heard.bytes).toString();
    expect(text.length).toBe(8_000_000);
    expect(text.slice(-16)).toBe('000000000499999\n');
  });

  it('give what is not committed again, and not what is', async () => {
    const { socket, source, exec } = await start(
      ['/bin/sh', '-c', 'echo one; sleep 0.3; echo two; sleep 0.3; echo three'],
      'block',
    );
    const heard = nothing();
    await consume(source, heard, (now) => Buffer.concat(now.bytes).includes('two'));
    socket.write(frame(TYPE.commit, 3, commitPayload(exec, 4n, 0n, false)));
    await sleep(50);
    socket.destroy();
    const again = await attach(exec);
    const rest = nothing();
    await consume(again.source, rest, wholeEnd);
    again.socket.destroy();
    expect(rest.pieces[0]?.[0]).toBe(4);
    expect(Buffer.concat(rest.bytes).toString()).toBe('two\nthree\n');
  });

  it('tell the end of a command whose reader has stalled when its sandbox is closed', async () => {
    const own = await runner.create();
    const handle = await own.exec({ argv: ['/bin/cat', '/dev/zero'], overflow: 'block' });
    await sleep(300);
    await own.destroy();
    let bytes = 0;
    let end: unknown;
    for await (const event of handle) {
      if (event.type === 'output') bytes += event.data.length;
      if (event.type === 'ended') end = [event.record.end, event.record.reason, event.record.stdout_bytes];
    }
    expect(end).toEqual(['killed', 'sandbox_closed', bytes]);
    expect(bytes).toBeGreaterThan(1 << 19);
  });
});
