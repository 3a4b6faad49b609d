import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { byteAt, type Heard, Host, hear, numbered } from './support/sessions.ts';

const disk = vi.hoisted(() => ({ full: false }));

vi.mock('../src/records/disk.ts', async (original) => {
  const real = await original<typeof import('../src/records/disk.ts')>();
  return {
    ...real,
    writeAt: (fd: number, pieces: readonly Uint8Array[], position: number) =>
      disk.full
        ? Promise.reject(Object.assign(new Error('no space left on device'), { code: 'ENOSPC' }))
        : real.writeAt(fd, pieces, position),
  };
});

const MIB = 1024 * 1024;

function check(heard: Heard): void {
  const all = Buffer.concat(heard.bytes);
  let [index, at] = [0, 0];
  for (const [from, to] of [...heard.gaps, [heard.at, heard.at] as const]) {
    for (; at < from; at += 1, index += 1) if (all[index] !== byteAt(at)) throw new Error(`another byte at ${at}`);
    at = to;
  }
}

describe('a disk that is full', () => {
  it('refuses a command whose record it can not take, and leaves nothing of it', async () => {
    await using host = await Host.start({ plan: [] }, ['plan']);
    disk.full = true;
    await expect(host.start('plan')).rejects.toMatchObject({ code: 'state_unavailable', retryable: true });
    disk.full = false;
    await vi.waitFor(() => expect(host.runner.killed).toEqual([1n]), 20_000);
    await vi.waitFor(async () => expect(await host.session.execs.list()).toEqual([]), 20_000);
    const id = await host.start('plan');
    expect((await host.session.execs.list()).map(({ exec_id }) => exec_id)).toEqual([id]);
  });

  it('does not stop a command that may drop: what could not be kept is a gap', async () => {
    await using host = await Host.start({ plan: numbered(6 * MIB) });
    host.runner.pauseAt = MIB;
    const id = await host.start('plan');
    await vi.waitFor(async () => expect((await host.session.execs.get(id)).stdout_bytes).toBe(MIB), 20_000);
    // Most of it is on the disk; the last of it may be held until more comes.
    await vi.waitFor(() => expect(host.runner.execs.get(1n)?.committed[0]).toBeGreaterThan(MIB / 2), 20_000);
    disk.full = true;
    host.runner.pauseAt = 5 * MIB;
    host.runner.goOn();
    await vi.waitFor(async () => expect((await host.session.execs.get(id)).stdout_bytes).toBe(5 * MIB), 20_000);
    await delay(50);
    disk.full = false;
    host.runner.pauseAt = Infinity;
    host.runner.goOn();
    const heard = await hear(host.session, id);
    await vi.waitFor(() => expect(host.runner.execs.size).toBe(0), 20_000);
    expect(heard.at).toBe(6 * MIB);
    expect(heard.gaps.length).toBe(1);
    check(heard);
    await host.session.close();
    await host.open();
    const again = await hear(host.session, id);
    expect(again.at).toBe(6 * MIB);
    expect(again.bytes.reduce((sum, { length }) => sum + length, 0)).toBeGreaterThan(1.5 * MIB);
    check(again);
  });

  it('makes a command wait that must not drop, until there is room', async () => {
    await using host = await Host.start({ plan: numbered(6 * MIB) });
    disk.full = false;
    const id = await host.start('plan', { overflow: 'block' });
    disk.full = true;
    await delay(300);
    expect((await host.session.execs.get(id)).state).toBe('running');
    expect(host.runner.mostUncommitted).toBeLessThanOrEqual(MIB);
    disk.full = false;
    const heard = await hear(host.session, id);
    expect(heard.gaps).toEqual([]);
    expect(heard.at).toBe(6 * MIB);
    check(heard);
  });

  it('keeps no answer from a collected command, and its record is written later', async () => {
    await using host = await Host.start({ plan: numbered(1000) });
    disk.full = true;
    const { stdout, record } = await host.session.execs.run({ argv: ['sh', 'plan'] });
    expect([stdout.length, record.end]).toEqual([1000, 'exited']);
    expect(host.runner.execs.size).toBe(1);
    disk.full = false;
    await vi.waitFor(() => expect(host.runner.execs.size).toBe(0), 20_000);
    await host.session.close();
    await host.open();
    expect((await hear(host.session, record.exec_id)).at).toBe(1000);
  });
});
