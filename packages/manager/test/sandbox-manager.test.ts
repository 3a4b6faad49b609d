import { BoxkiteError } from '@boxkite/protocol';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Access, SandboxManager } from '../src/index.ts';
import { FakeSubstrate, type Step } from './fake-substrate.ts';
import { FakeClock, limits, MemoryStore, settle } from './fakes.ts';

const MINUTE = 60_000;
const ada: Access = { account: 'ada', admin: false };
const bob: Access = { account: 'bob', admin: false };
const root: Access = { account: 'root', admin: true };
const all = { activeOnly: false, limit: null, after: 0 };

let substrate: FakeSubstrate;
let store: MemoryStore;
let clock: FakeClock;
let reports: string[];

beforeEach(() => {
  substrate = new FakeSubstrate();
  store = new MemoryStore();
  clock = new FakeClock();
  reports = [];
});

function open(): Promise<SandboxManager> {
  const report = (what: string, error: unknown): void => void reports.push(`${what}: ${String(error)}`);
  return SandboxManager.open({ substrate, store, clock, limits, report });
}

async function made(manager: SandboxManager, spec: Parameters<SandboxManager['create']>[1] = {}): Promise<string> {
  const [summary] = await manager.create('ada', spec);
  if (summary === undefined) throw new Error('nothing was made');
  return summary.id;
}

/** Holds a step until it is let go. */
function hold(step: Step): { readonly reached: Promise<void>; go(): void } {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  substrate.at = async (at) => {
    if (at !== step) return;
    reached.resolve();
    await released.promise;
  };
  return { reached: reached.promise, go: released.resolve };
}

function failing(step: Step, times = 1): void {
  let left = times;
  substrate.at = (at) => {
    if (at !== step || left === 0) return;
    left -= 1;
    throw new BoxkiteError('runner_failed', `injected at ${step}`);
  };
}

const code = (expected: string): unknown => expect.objectContaining({ code: expected });

describe('a sandbox', () => {
  it('is created, used without a read of the store, and destroyed', async () => {
    const manager = await open();
    const id = await made(manager, { label: 'mine' });
    expect(await manager.get(id, ada)).toMatchObject({ state: 'ready', label: 'mine', workspace: { kept: true } });
    expect((await manager.port(id, ada)).id).toBe(id);
    expect(store.reads).toBe(0);
    await manager.destroy(id, ada);
    expect(substrate.running.size).toBe(0);
    expect(await manager.get(id, ada)).toMatchObject({
      state: 'destroyed',
      state_reason: 'requested',
      destroyed_at: expect.any(String) as unknown,
      workspace: { kept: false },
    });
    await expect(manager.destroy(id, ada)).rejects.toThrow(code('not_found'));
    await expect(manager.port(id, ada)).rejects.toThrow(code('not_found'));
  });

  it('of another account is not found, by any call, and is by an administrator', async () => {
    const manager = await open();
    const id = await made(manager);
    const calls = [
      manager.get(id, bob),
      manager.port(id, bob),
      manager.destroy(id, bob),
      manager.extend(id, bob, 1),
      manager.stop(id, bob),
      manager.start(id, bob),
      manager.get('00000000-0000-4000-8000-000000000000', ada),
    ];
    const messages = new Set<string>();
    for (const call of calls) {
      await call.then(
        () => messages.add('resolved'),
        (error: unknown) => messages.add(String(error)),
      );
    }
    expect([...messages]).toEqual(['BoxkiteError: there is no such sandbox']);
    expect((await manager.list(bob, all)).sandboxes).toEqual([]);
    expect((await manager.list(root, all)).sandboxes).toHaveLength(1);
    await manager.destroy(id, root);
  });

  it('that fails to start leaves nothing, and its place is free at once', async () => {
    const manager = await open();
    for (const step of ['start', 'started', 'endpoint'] as const) {
      failing(step);
      await expect(manager.create('ada', {}, { count: limits.perAccount })).rejects.toThrow(code('runner_failed'));
      expect(substrate.running.size).toBe(0);
      expect(manager.counts()).toEqual({ creating: 0, ready: 0, stopping: 0, stopped: 0, failed: 0 });
    }
    expect(await manager.create('ada', {}, { count: limits.perAccount })).toHaveLength(limits.perAccount);
    const failed = (await manager.list(ada, all)).sandboxes.filter(({ state }) => state === 'failed');
    expect(failed).toHaveLength(3);
    expect(failed[0]).toMatchObject({ state_reason: 'start_failed', destroyed_at: expect.any(String) as unknown });
  });
});

describe('a destroy', () => {
  it('during a create wins, at every step of it', async () => {
    for (const step of ['start', 'started', 'endpoint'] as const) {
      const manager = await open();
      const held = hold(step);
      const creating = manager.create('ada', { workspace: 'disk' });
      creating.catch(() => undefined);
      await held.reached;
      const id = [...store.rows.values()].at(-1)?.id ?? '';
      const destroyed = manager.destroy(id, ada);
      held.go();
      await destroyed;
      await expect(creating).rejects.toThrow(code('closing'));
      expect(substrate.running.size).toBe(0);
      expect(substrate.kept.size).toBe(0);
      expect(await manager.get(id, ada)).toMatchObject({ state: 'destroyed' });
    }
  });

  it('while the store confirms a create wins', async () => {
    const manager = await open();
    const confirmed = Promise.withResolvers<void>();
    let writes = 0;
    store.before = () => {
      writes += 1;
      return writes === 2 ? confirmed.promise : undefined;
    };
    const creating = manager.create('ada', {});
    creating.catch(() => undefined);
    await settle();
    const id = [...store.rows.keys()][0] ?? '';
    const destroyed = manager.destroy(id, ada);
    confirmed.resolve();
    await destroyed;
    await expect(creating).rejects.toThrow(code('closing'));
    expect(substrate.running.size).toBe(0);
    expect(store.rows.get(id)?.state).toBe('destroyed');
  });

  it('by ten at once is one', async () => {
    const manager = await open();
    const id = await made(manager);
    let destroys = 0;
    substrate.at = (step) => {
      if (step === 'destroy') destroys += 1;
    };
    await Promise.all(Array.from({ length: 10 }, () => manager.destroy(id, ada)));
    expect(destroys).toBe(1);
  });

  it('that fails is tried again by itself, and is not said to be done before', async () => {
    const manager = await open();
    const id = await made(manager);
    failing('destroy', 2);
    await expect(manager.destroy(id, ada)).rejects.toThrow(code('runner_failed'));
    expect(await manager.get(id, ada)).toMatchObject({ state: 'stopping' });
    await expect(manager.port(id, ada)).rejects.toThrow(code('sandbox_not_ready'));
    for (let n = 0; n < 3; n += 1) {
      clock.pass(6_000);
      await settle();
    }
    expect(await manager.get(id, ada)).toMatchObject({ state: 'destroyed' });
    expect(substrate.running.size).toBe(0);
  });

  it('goes on with a full disk, and is written down when there is room', async () => {
    const manager = await open();
    const id = await made(manager);
    store.full = true;
    await manager.destroy(id, ada);
    expect(substrate.running.size).toBe(0);
    expect(await manager.get(id, ada)).toMatchObject({ state: 'destroyed' });
    expect(store.rows.get(id)?.state).toBe('ready');
    store.full = false;
    clock.pass(6_000);
    await settle();
    expect(store.rows.get(id)?.state).toBe('destroyed');
    await expect(manager.destroy(id, ada)).rejects.toThrow(code('not_found'));
  });
});

describe('capacity', () => {
  it('is never exceeded by creates at once, per account and in all', async () => {
    const manager = await open();
    const results = await Promise.allSettled(
      ['ada', 'bob', 'eve'].flatMap((account) => Array.from({ length: 6 }, () => manager.create(account, {}))),
    );
    expect(substrate.running.size).toBe(limits.total);
    const reasons = results.map((result): unknown => (result.status === 'rejected' ? result.reason : null));
    const codes = reasons.flatMap((reason) => (reason instanceof BoxkiteError ? [reason.code] : []));
    expect(new Set(codes)).toEqual(new Set(['concurrent_sandbox_limit_reached', 'global_capacity_reached']));
    const ids = (await manager.list(ada, all)).sandboxes.map(({ id }) => id);
    expect(ids).toHaveLength(limits.perAccount);
    await manager.destroy(ids[0] ?? '', ada);
    await manager.create('ada', {});
  });

  it('is not held up by a slow start of somebody else', async () => {
    const manager = await open();
    const held = hold('start');
    const slow = manager.create('ada', {});
    await held.reached;
    substrate.at = () => undefined;
    await manager.create('bob', {});
    held.go();
    await slow;
  });

  it('of several at once is all or none', async () => {
    const manager = await open();
    await manager.create('ada', {}, { count: 2 });
    await expect(manager.create('ada', {}, { count: 3 })).rejects.toThrow(
      expect.objectContaining({ code: 'concurrent_sandbox_limit_reached', details: { limit: 4, active: 2 } }),
    );
    let starts = 0;
    substrate.at = (step) => {
      if (step !== 'start') return;
      starts += 1;
      if (starts === 2) throw new BoxkiteError('runner_failed', 'injected');
    };
    await expect(manager.create('ada', {}, { count: 2 })).rejects.toThrow(code('runner_failed'));
    expect(substrate.running.size).toBe(2);
  });
});

describe('a deadline', () => {
  it('destroys, counts elapsed time, and is unmoved by jumps of the clock', async () => {
    const manager = await open();
    const id = await made(manager, { lifetime_minutes: 10 });
    clock.jump(365 * 24 * 60 * MINUTE);
    clock.pass(9 * MINUTE);
    await settle();
    expect(await manager.get(id, ada)).toMatchObject({ state: 'ready' });
    const shown = Date.parse((await manager.get(id, ada)).expires_at);
    expect(shown - clock.wall()).toBeCloseTo(MINUTE, -4);
    clock.jump(-2 * 365 * 24 * 60 * MINUTE);
    clock.pass(59_000);
    await settle();
    expect(await manager.get(id, ada)).toMatchObject({ state: 'ready' });
    clock.pass(2_000);
    await settle();
    expect(await manager.get(id, ada)).toMatchObject({ state: 'destroyed', state_reason: 'lifetime' });
    expect(substrate.running.size).toBe(0);
  });

  it('is moved by an extend at the very end, or the extend is refused: one of the two', async () => {
    for (let offset = -3; offset <= 3; offset += 1) {
      const manager = await open();
      const id = await made(manager, { lifetime_minutes: 1 });
      clock.pass(MINUTE + offset);
      const outcome = await manager.extend(id, ada, 5).then(
        () => 'done' as const,
        (error: unknown) => {
          expect(error).toEqual(code('closing'));
          return 'refused' as const;
        },
      );
      expect(outcome).toBe(offset < 0 ? 'done' : 'refused');
      clock.pass(4 * MINUTE);
      await settle();
      const { state } = await manager.get(id, ada);
      expect(state).toBe(outcome === 'done' ? 'ready' : 'destroyed');
      await manager.close('daemon_stopped');
    }
  });

  it('does not come while an extend is being stored, and comes at once where that fails', async () => {
    const manager = await open();
    const id = await made(manager, { lifetime_minutes: 1 });
    clock.pass(MINUTE - 1);
    const written = Promise.withResolvers<void>();
    store.before = () => written.promise;
    const extending = manager.extend(id, ada, 5);
    extending.catch(() => undefined);
    await settle();
    clock.pass(2 * MINUTE);
    await settle();
    expect(substrate.running.size).toBe(1);
    store.full = true;
    written.resolve();
    await expect(extending).rejects.toThrow(code('state_unavailable'));
    store.full = false;
    clock.pass(1);
    await settle();
    expect(substrate.running.size).toBe(0);
  });

  it('that is moved twice at once is the later one’s, and none is refused for the other', async () => {
    const manager = await open();
    const id = await made(manager, { lifetime_minutes: 1 });
    const written = Promise.withResolvers<void>();
    store.before = () => written.promise;
    const both = [manager.extend(id, ada, 3), manager.extend(id, ada, 2)];
    await settle();
    clock.pass(2.5 * MINUTE);
    written.resolve();
    await Promise.all(both);
    await settle();
    expect(await manager.get(id, ada)).toMatchObject({ state: 'ready' });
    clock.pass(2 * MINUTE + 1);
    await settle();
    expect(await manager.get(id, ada)).toMatchObject({ state: 'destroyed' });
  });

  it('counts wall time over a restart of the machine, and never more than was granted', async () => {
    const first = await open();
    const id = await made(first, { lifetime_minutes: 10, workspace: 'disk' });
    await first.close('release');
    clock.boot = 'boot-2';
    clock.jump(-1000 * MINUTE);
    const second = await open();
    clock.pass(9 * MINUTE);
    await settle();
    expect(await second.get(id, ada)).toMatchObject({ state: 'ready' });
    clock.pass(2 * MINUTE);
    await settle();
    expect(await second.get(id, ada)).toMatchObject({ state: 'destroyed' });
  });
});

describe('a disk workspace', () => {
  it('is kept by a stop and found again by a start, with no process', async () => {
    const manager = await open();
    const id = await made(manager, { workspace: 'disk', label: 'd' });
    const port = await manager.port(id, ada);
    await port.files.write('a', Buffer.from('kept'));
    expect(await manager.stop(id, ada)).toMatchObject({ state: 'stopped', workspace: { kept: true } });
    expect(await manager.stop(id, ada)).toMatchObject({ state: 'stopped' });
    await expect(manager.port(id, ada)).rejects.toThrow(code('sandbox_not_ready'));
    expect(substrate.running.size).toBe(0);
    expect(await manager.start(id, ada)).toMatchObject({ state: 'ready', state_reason: null });
    expect(await (await manager.port(id, ada)).files.stat('a')).toMatchObject({ size: 4 });
    await manager.destroy(id, ada);
    expect(substrate.kept.size).toBe(0);
  });

  it('is what a stop needs', async () => {
    const manager = await open();
    const id = await made(manager);
    await expect(manager.stop(id, ada)).rejects.toThrow(code('workspace_not_kept'));
    expect(await manager.get(id, ada)).toMatchObject({ state: 'ready' });
  });

  it('survives a start that fails or is cancelled', async () => {
    const manager = await open();
    const id = await made(manager, { workspace: 'disk' });
    await manager.stop(id, ada);
    failing('started');
    await expect(manager.start(id, ada)).rejects.toThrow(code('runner_failed'));
    expect(await manager.get(id, ada)).toMatchObject({ state: 'failed', state_reason: 'start_failed' });
    const held = hold('started');
    const leaver = new AbortController();
    const starting = manager.start(id, ada, leaver.signal);
    starting.catch(() => undefined);
    await held.reached;
    leaver.abort();
    held.go();
    await expect(starting).rejects.toThrow(code('aborted'));
    expect(await manager.get(id, ada)).toMatchObject({ state: 'stopped', workspace: { kept: true } });
    substrate.at = () => undefined;
    expect(await manager.start(id, ada)).toMatchObject({ state: 'ready' });
  });

  it('is there after a stop that failed: before it ended anything, or half way', async () => {
    const manager = await open();
    const id = await made(manager, { workspace: 'disk' });
    failing('stop');
    await expect(manager.stop(id, ada)).rejects.toThrow(code('runner_failed'));
    expect(await manager.get(id, ada)).toMatchObject({ state: 'ready', state_reason: null });
    expect((await manager.port(id, ada)).id).toBe(id);
    let stops = 0;
    substrate.at = (step) => {
      if (step === 'stop') stops += 1;
      if ((step === 'stop' && stops === 1) || step === 'list') throw new BoxkiteError('runner_failed', 'injected');
    };
    await expect(manager.stop(id, ada)).rejects.toThrow(code('runner_failed'));
    expect(await manager.get(id, ada)).toMatchObject({ state: 'stopping' });
    clock.pass(6_000);
    await settle();
    expect(await manager.get(id, ada)).toMatchObject({ state: 'stopped' });
    expect(await manager.start(id, ada)).toMatchObject({ state: 'ready' });
  });

  it('of parallel starts and stops ends in one true state', async () => {
    const manager = await open();
    const id = await made(manager, { workspace: 'disk' });
    const calls = [0, 1, 2, 3, 4, 5].map((n) => (n % 2 === 0 ? manager.stop(id, ada) : manager.start(id, ada)));
    await Promise.allSettled(calls);
    const { state } = await manager.get(id, ada);
    expect(substrate.running.size).toBe(state === 'ready' ? 1 : 0);
    expect(['ready', 'stopped']).toContain(state);
  });
});

describe('the loss of the runner', () => {
  it('is told with what happened to the files', async () => {
    const manager = await open();
    const tmpfs = await made(manager);
    const disk = await made(manager, { workspace: 'disk' });
    substrate.loseRunner();
    await settle();
    expect(await manager.get(tmpfs, ada)).toMatchObject({
      state: 'failed',
      state_reason: 'runner_lost',
      workspace: { kind: 'tmpfs', kept: false },
      destroyed_at: expect.any(String) as unknown,
    });
    expect(await manager.get(disk, ada)).toMatchObject({
      state: 'failed',
      state_reason: 'runner_lost',
      workspace: { kind: 'disk', kept: true },
      destroyed_at: null,
    });
    await expect(manager.port(tmpfs, ada)).rejects.toThrow(code('sandbox_not_ready'));
    await expect(manager.start(tmpfs, ada)).rejects.toThrow(code('workspace_not_kept'));
    expect(await manager.start(disk, ada)).toMatchObject({ state: 'ready' });
    await manager.destroy(tmpfs, ada);
    await expect(manager.destroy(tmpfs, ada)).rejects.toThrow(code('not_found'));
  });

  it('during a create and during a destroy ends in a true state', async () => {
    const manager = await open();
    const held = hold('endpoint');
    const creating = manager.create('ada', {});
    creating.catch(() => undefined);
    await held.reached;
    substrate.loseRunner();
    held.go();
    await expect(creating).rejects.toThrow(BoxkiteError);
    const id = await made(manager);
    const slow = hold('destroy');
    const destroyed = manager.destroy(id, ada);
    await slow.reached;
    substrate.loseRunner();
    slow.go();
    await destroyed;
    expect(await manager.get(id, ada)).toMatchObject({ state: 'destroyed' });
  });
});

describe('a start of the manager', () => {
  it('takes over what runs, with deadlines', async () => {
    const first = await open();
    const id = await made(first, { lifetime_minutes: 10 });
    await first.close('release');
    clock.pass(4 * MINUTE);
    const second = await open();
    expect((await second.port(id, ada)).id).toBe(id);
    clock.pass(5 * MINUTE);
    await settle();
    expect(await second.get(id, ada)).toMatchObject({ state: 'ready' });
    clock.pass(2 * MINUTE);
    await settle();
    expect(await second.get(id, ada)).toMatchObject({ state: 'destroyed', state_reason: 'lifetime' });
  });

  it('reports what was lost meanwhile, keeps what is kept, and removes what nobody was told of', async () => {
    const first = await open();
    const tmpfs = await made(first);
    const disk = await made(first, { workspace: 'disk' });
    const stopped = await made(first, { workspace: 'disk' });
    await first.stop(stopped, ada);
    await first.close('release');
    substrate.loseRunner();
    await substrate.start({ id: 'stranger' });
    await substrate.start({ id: 'forgotten', workspace: 'disk' });
    const second = await open();
    expect(await second.get(tmpfs, ada)).toMatchObject({ state: 'failed', state_reason: 'runner_lost' });
    expect(await second.get(disk, ada)).toMatchObject({ state: 'failed', workspace: { kept: true } });
    expect(await second.get(stopped, ada)).toMatchObject({ state: 'stopped' });
    expect(substrate.running.size).toBe(0);
    expect(second.unknownWorkspaces).toEqual(['forgotten']);
    expect(substrate.kept.has('forgotten')).toBe(true);
  });

  it('says so where a kept workspace is gone', async () => {
    const first = await open();
    const id = await made(first, { workspace: 'disk' });
    await first.stop(id, ada);
    await first.close('release');
    substrate.kept.clear();
    const second = await open();
    expect(await second.get(id, ada)).toMatchObject({ state: 'failed', state_reason: 'workspace_lost' });
  });
});

describe('the end of the daemon', () => {
  it('keeps disk sandboxes and destroys the others, and says why', async () => {
    const first = await open();
    const tmpfs = await made(first);
    const disk = await made(first, { workspace: 'disk' });
    await first.close('daemon_stopped');
    expect(substrate.running.size).toBe(0);
    expect(store.rows.get(tmpfs)).toMatchObject({ state: 'destroyed', state_reason: 'daemon_stopped' });
    expect(store.rows.get(disk)).toMatchObject({ state: 'stopped', state_reason: 'daemon_stopped', kept: true });
    await expect(first.create('ada', {})).rejects.toThrow(code('state_unavailable'));
    const second = await open();
    expect(await second.start(disk, ada)).toMatchObject({ state: 'ready' });
  });
});

describe('a full disk', () => {
  it('refuses what could not be kept, and nothing is lost', async () => {
    const manager = await open();
    const id = await made(manager);
    store.full = true;
    await expect(manager.create('ada', {})).rejects.toThrow(code('state_unavailable'));
    await expect(manager.extend(id, ada, 5)).rejects.toThrow(code('state_unavailable'));
    expect((await manager.port(id, ada)).id).toBe(id);
    expect(substrate.running.size).toBe(1);
    store.full = false;
    await manager.create('ada', {}, { count: limits.perAccount - 1 });
  });

  it('in the middle of a create leaves nothing', async () => {
    const manager = await open();
    const held = hold('started');
    const creating = manager.create('ada', {});
    creating.catch(() => undefined);
    await held.reached;
    store.full = true;
    held.go();
    await expect(creating).rejects.toThrow(code('state_unavailable'));
    expect(substrate.running.size).toBe(0);
  });
});

describe('lists', () => {
  it('are in the order of creation, whole or by pages, with and without what is destroyed', async () => {
    const manager = await open();
    const ids: string[] = [];
    for (let n = 0; n < 7; n += 1) {
      ids.push(await made(manager));
      if (n % 2 === 0) await manager.destroy(ids.at(-1) ?? '', ada);
    }
    expect((await manager.list(ada, all)).sandboxes.map(({ id }) => id)).toEqual(ids);
    expect((await manager.list(ada, { ...all, activeOnly: true })).sandboxes).toHaveLength(3);
    const paged: string[] = [];
    let after: number | null = 0;
    while (after !== null) {
      const page: Awaited<ReturnType<typeof manager.list>> = await manager.list(ada, { ...all, limit: 3, after });
      expect(page.sandboxes.length).toBeLessThanOrEqual(3);
      paged.push(...page.sandboxes.map(({ id }) => id));
      after = page.next;
    }
    expect(paged).toEqual(ids);
  });

  it('count what an account used', async () => {
    const manager = await open();
    const id = await made(manager);
    clock.pass(30 * MINUTE - 1);
    await manager.destroy(id, ada);
    await made(manager);
    clock.pass(15 * MINUTE);
    expect(await manager.usage('ada')).toEqual({
      monthly_sandbox_hours_used: 0.75,
      monthly_sandbox_hours_limit: 4 * 744,
      concurrent_sandboxes: 1,
      concurrent_sandboxes_limit: 4,
      total_sandboxes_created: 2,
    });
    clock.jump(31 * 24 * 60 * MINUTE);
    expect((await manager.usage('ada')).monthly_sandbox_hours_used).toBeGreaterThan(300);
    expect((await manager.usage('ada')).total_sandboxes_created).toBe(2);
  });
});

it('a record is forgotten after its time, and never that of a sandbox that is there', async () => {
  const manager = await open();
  const id = await made(manager);
  await manager.destroy(id, ada);
  const kept = await made(manager, { lifetime_minutes: limits.maxLifetimeMinutes });
  const hour = 60 * MINUTE;
  clock.jump(limits.retentionDays * 24 * hour - 2 * hour);
  clock.pass(hour);
  await settle();
  expect((await manager.get(id, ada)).state).toBe('destroyed');
  clock.pass(2 * hour);
  await settle();
  await expect(manager.get(id, ada)).rejects.toThrow(code('not_found'));
  expect((await manager.get(kept, ada)).state).toBe('ready');
  await manager.close('release');
});
