/** Random and mutated frames at the runner's socket: no crash, no hang, no leak, and a bystander that notices nothing. */
import { once } from 'node:events';
import { totalmem } from 'node:os';
import { BoxkiteError } from '@boxkite/protocol';
import {
  closePayload,
  commitPayload,
  execPayload,
  frame,
  frames,
  growth,
  HEADER,
  lane,
  openPayload,
  programsPayload,
  resourcesOf,
  sh,
  sleep,
  slowness,
  startRunner,
  type TestRunner,
  type TestSandbox,
  TYPE,
  u64,
  within,
} from '@boxkite/testing';
import { describe, expect, it } from 'vitest';
import { Random } from './support/random.ts';

const FRAMES = Math.ceil(20_000 / slowness);
const PER_CONNECTION = 20;
const PARALLEL = 8;
/** Longest wait for a connection to answer or to end. */
const HANG_MS = within(10_000);

/** Frames that keep to the protocol, as the ground for mutations; `prey` is a sandbox that may come to harm. */
function wellFormed(random: Random, prey: bigint): Buffer {
  const exec = BigInt(random.below(2000));
  const request = random.below(1 << 16) + 1;
  switch (random.below(11)) {
    case 9: {
      const names = random.pick([
        null,
        [],
        ['ls'],
        ['/tmp/x', 'a'],
        ['x'.repeat(5000)],
        Array(900).fill('y'),
        ['../x'],
      ]);
      return frame(TYPE.programs, request, programsPayload(random.pick([prey, prey, 1n << 50n]), names));
    }
    case 0:
      return frame(
        TYPE.open,
        request,
        openPayload({ workspaceBytes: 1n << BigInt(random.below(64)), flags: random.below(8) }),
      );
    case 1:
      return frame(
        TYPE.exec,
        request,
        execPayload(
          prey,
          random.pick([['/bin/true'], ['/bin/echo', 'x'.repeat(random.below(5000))], ['none'], [], ['']]),
          { timeoutMs: BigInt(random.below(200)), stdin: random.below(4) },
        ),
      );
    case 2:
      return frame(TYPE.attach, request, Buffer.concat([u64(exec), Buffer.from([random.below(3)])]));
    case 3:
      return frame(TYPE.signal, request, Buffer.concat([u64(exec), Buffer.from([random.below(256), random.below(3)])]));
    case 4:
      return frame(TYPE.resize, request, Buffer.concat([u64(exec), random.bytes(4)]));
    case 5:
      return frame(TYPE.file, request, Buffer.concat([u64(prey), Buffer.from([random.below(3)])]));
    case 6:
      return frame(TYPE.list, request, Buffer.from([random.below(3)]));
    case 7:
      return frame(TYPE.probe, request);
    case 8:
      return frame(
        TYPE.commit,
        request,
        commitPayload(exec, BigInt(random.below(100_000)), BigInt(random.below(1000)), random.below(2) === 1),
      );
    default:
      return frame(
        TYPE.close,
        request,
        random.below(4) === 0
          ? closePayload(0n, random.below(2) === 1, random.bytes(16))
          : closePayload(BigInt(random.below(1 << 30)) + (1n << 40n), random.below(2) === 1),
      );
  }
}

/** One thing that a hostile client may send. */
function hostile(random: Random, prey: bigint): Buffer {
  const good = wellFormed(random, prey);
  switch (random.below(8)) {
    case 0:
      return random.bytes(random.below(200) + 1);
    case 1: {
      for (let flips = random.below(6) + 1; flips > 0; flips -= 1) good[random.below(good.length)] = random.below(256);
      return good;
    }
    case 2: {
      const cut = good.subarray(0, HEADER + random.below(good.length - HEADER + 1));
      cut.writeUInt32LE(cut.length - HEADER, 0);
      return cut;
    }
    case 3: {
      good.writeUInt32LE(random.pick([0, 1, 0x7fffffff, 0xffffffff, 4 << 20, (4 << 20) + 1, good.length]), 0);
      return good;
    }
    case 4:
      return frame(random.below(256), random.below(3), random.bytes(random.below(64)));
    case 5: {
      // A length inside the payload that says more than is there.
      if (good.length >= HEADER + 4)
        good.writeUInt32LE(
          random.pick([0xffffffff, 0x80000000, 0x7fffffff, 1 << 22]),
          HEADER + random.below(good.length - HEADER - 3),
        );
      return good;
    }
    default:
      return good;
  }
}

/** Whether what was sent could end the bystander: an honest close or exec of it is no fault of the runner. */
function harms(bytes: Buffer, bystander: bigint): boolean {
  return bytes.includes(u64(bystander));
}

/** Sends a batch on one connection, then waits until the runner has answered everything or closed it. */
async function batch(runner: TestRunner, parts: readonly Buffer[]): Promise<number> {
  const socket = await runner.connect();
  socket.on('error', () => undefined);
  let answers = 0;
  const reading = (async () => {
    for await (const one of frames(socket)) {
      answers += 1;
      expect(one.type).toBeGreaterThanOrEqual(0x80);
    }
  })();
  for (const part of parts) {
    if (socket.destroyed || !socket.writable) break;
    socket.write(part);
  }
  // The end of the client's side must end the connection, whatever state it is in.
  socket.end();
  const timer = new Promise<'hang'>((resolve) => setTimeout(resolve, HANG_MS, 'hang').unref());
  const result = await Promise.race([reading.then(() => 'ended' as const), timer]);
  socket.destroy();
  expect(result, parts.map((part) => part.subarray(0, 64).toString('hex')).join('\n')).toBe('ended');
  return answers;
}

/** A list that the frames may have left in force: its maker would count as growth. */
async function releaseList(runner: TestRunner, sandbox: TestSandbox): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      await runner.client.setPrograms(sandbox.number, null);
      return;
    } catch (error) {
      if (!(error instanceof BoxkiteError)) throw error;
      if (error.code === 'not_found') return;
      if (error.code !== 'conflict' || tries > 100) throw error;
      await sleep(100);
    }
  }
}

describe(`fuzz, ${lane}`, () => {
  it(`takes ${FRAMES} hostile frames`, { timeout: within(180_000) }, async () => {
    const seed = Number(process.env['BOXKITE_FUZZ_SEED'] ?? Date.now() % 2 ** 31);
    const random = new Random(seed);
    await using runner = await startRunner({ idleSeconds: 1 });
    await using bystander = await runner.create();
    await using prey = await runner.create({ workspaceMb: 16 });
    const agent = await bystander.agent();
    await agent.write('/workspace/kept', Buffer.from('kept'));
    await sh(prey, 'true');
    await sleep(1500);
    const before = resourcesOf(runner.pid, runner.place.base);
    const works = async (where: string): Promise<void> => {
      expect((await sh(bystander, 'cat /workspace/kept')).stdout, `${where}, seed ${seed}`).toBe('kept');
      expect((await agent.readAll('/workspace/kept')).toString()).toBe('kept');
    };
    let answers = 0;
    for (let sent = 0; sent < FRAMES; sent += PER_CONNECTION * PARALLEL) {
      const batches = Array.from({ length: PARALLEL }, () =>
        Array.from({ length: PER_CONNECTION }, () => hostile(random, prey.number)).filter(
          (bytes) => !harms(bytes, bystander.number),
        ),
      );
      answers += (await Promise.all(batches.map((parts) => batch(runner, parts)))).reduce(
        (sum, count) => sum + count,
        0,
      );
      expect(runner.ended, `the runner ended; seed ${seed}`).toBeUndefined();
      await closeOthers(runner, [bystander, prey]);
      if (sent % (PER_CONNECTION * PARALLEL * 10) === 0) await works(`after ${sent} frames`);
    }
    // A client that does not read its answers is not served, so how many there are is a matter of time.
    expect(answers).toBeGreaterThan(100);
    await works('at the end');
    await releaseRecords(runner);
    await releaseList(runner, prey);
    let grown: readonly string[] = ['not looked yet'];
    for (let tries = 0; tries < 160 && grown.length > 0; tries += 1) {
      await sleep(100);
      grown = growth(before, resourcesOf(runner.pid, runner.place.base));
    }
    expect(grown, `seed ${seed}`).toEqual([]);
    expect(runner.complaints).toEqual([]);
  });

  it('answers a broken frame and closes, though the client waits and says nothing more', async () => {
    await using runner = await startRunner();
    for (const broken of [
      frame(TYPE.open, 5, openPayload({ flags: 0xff })),
      frame(TYPE.list, 5, Buffer.alloc(9)),
      frame(TYPE.close, 5),
      frame(TYPE.probe, 0),
    ]) {
      const socket = await runner.connect();
      socket.on('error', () => undefined);
      socket.write(broken);
      const timer = setTimeout(() => socket.destroy(new Error('no answer')), HANG_MS);
      const types: number[] = [];
      for await (const one of frames(socket)) types.push(one.type);
      clearTimeout(timer);
      expect(types).toEqual([TYPE.error]);
    }
  });

  it('gives no sandbox more memory than the machine has', async () => {
    await using runner = await startRunner();
    const beyond = (totalmem() / 2 ** 20) * 2;
    for (const spec of [{ memoryMb: beyond }, { workspaceMb: beyond }])
      await expect(runner.create(spec)).rejects.toMatchObject({ code: 'invalid_request' });
    await using _ = await runner.create({ memoryMb: Math.floor(totalmem() / 2 ** 20) });
  });

  it('holds out against clients that send slowly, nothing, or read nothing', async () => {
    await using runner = await startRunner();
    await using sandbox = await runner.create();
    const silent = await Promise.all(Array.from({ length: 200 }, () => runner.connect()));
    const half = frame(TYPE.list, 1, Buffer.alloc(1)).subarray(0, 7);
    for (const socket of silent) socket.on('error', () => undefined).write(half);
    const deaf = await runner.connect();
    deaf.on('error', () => undefined).pause();
    for (let index = 0; index < 20_000 && deaf.writableLength < 1 << 20; index += 1)
      deaf.write(frame(TYPE.probe, index + 1));
    expect((await sh(sandbox, 'echo works')).stdout).toBe('works\n');
    for (const socket of [...silent, deaf]) socket.destroy();
    const last = await runner.connect();
    last.write(frame(TYPE.list, 1, Buffer.alloc(1)));
    await once(last, 'data');
    last.destroy();
  });
});

async function closeOthers(runner: TestRunner, kept: readonly TestSandbox[]): Promise<void> {
  const { sandboxes } = await runner.client.list();
  await Promise.all(
    sandboxes
      .filter((entry) => !kept.some((one) => one.number === entry.sandbox))
      .map((entry) => runner.client.closeSandbox(entry.sandbox)),
  );
}

/** Commits the end of every record that no client came back for. */
async function releaseRecords(runner: TestRunner): Promise<void> {
  const socket = await runner.connect();
  for (const entry of (await runner.client.list()).execs)
    socket.write(frame(TYPE.commit, 1, commitPayload(BigInt(entry.exec_id), 0n, 0n, true)));
  socket.end();
  await sleep(300);
  socket.destroy();
}
