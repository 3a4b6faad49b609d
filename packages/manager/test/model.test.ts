/**
 * Any mix of calls, slow and failing steps, lost runners, full disks, jumping clocks and kill -9 of the process, at once:
 * afterwards the manager, its records and the substrate say the same, and nothing that was acknowledged is lost.
 */
import { BoxkiteError } from '@boxkite/protocol';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Access, SandboxManager } from '../src/index.ts';
import { FakeSubstrate, type Step } from './fake-substrate.ts';
import { FakeClock, limits, MemoryStore, settle } from './fakes.ts';
import { ProcessEdge } from './process-edge.ts';

const MINUTE = 60_000;
const ada: Access = { account: 'ada', admin: false };

type Action =
  | { readonly do: 'create'; readonly disk: boolean; readonly count: number; readonly leave: boolean }
  | { readonly do: 'destroy' | 'stop' | 'start' | 'write'; readonly which: number }
  | { readonly do: 'extend'; readonly which: number; readonly minutes: number }
  | { readonly do: 'pass' | 'jump'; readonly ms: number }
  | { readonly do: 'fail'; readonly step: Step; readonly slow: number }
  | { readonly do: 'full' | 'room' | 'lose' | 'crash' | 'settle' };

const which = fc.nat(7);
const actions: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('create' as const),
      disk: fc.boolean(),
      count: fc.integer({ min: 1, max: 2 }),
      leave: fc.boolean(),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('destroy' as const, 'stop' as const, 'start' as const, 'write' as const),
      which,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('extend' as const), which, minutes: fc.integer({ min: 1, max: 60 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 20 * MINUTE }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('jump' as const), ms: fc.integer({ min: -1e9, max: 1e9 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('fail' as const),
      step: fc.constantFrom<Step[]>('start', 'started', 'endpoint', 'destroy', 'stop', 'discard', 'workspaces', 'list'),
      slow: fc.nat(6),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('full' as const, 'room' as const, 'lose' as const, 'crash' as const, 'settle' as const),
    }),
  },
);

/** One machine, with whoever uses it. */
class World {
  readonly substrate = new FakeSubstrate();
  readonly store = new MemoryStore();
  readonly clock = new FakeClock();
  edge = new ProcessEdge(this.substrate, this.store, this.clock);
  manager: SandboxManager | null = null;
  /** Answered creates. */
  readonly known: string[] = [];
  /** Answered destroys: for ever. */
  readonly destroyed = new Set<string>();
  /** Disk sandboxes into which something was written. */
  readonly written = new Set<string>();
  /** Monotonic ms until which an answered create or extend promises life. */
  readonly promised = new Map<string, number>();
  /** Asked to be destroyed, so that life is no longer promised. */
  readonly doomed = new Set<string>();
  readonly #failures: { step: Step; slow: number }[] = [];
  readonly #calls: Promise<unknown>[] = [];

  constructor() {
    this.substrate.at = async (step) => {
      const found = this.#failures.findIndex((failure) => failure.step === step);
      const failure = this.#failures[found];
      if (failure === undefined) return;
      this.#failures.splice(found, 1);
      for (let n = 0; n < failure.slow; n += 1) await new Promise((resolve) => setImmediate(resolve));
      // An even count is only slow.
      if (failure.slow % 2 === 1) throw new BoxkiteError('runner_failed', `injected at ${step}`);
    };
  }

  async boot(): Promise<void> {
    this.edge = new ProcessEdge(this.substrate, this.store, this.clock);
    const { substrate, store, clock } = this.edge;
    this.manager = await SandboxManager.open({ substrate, store, clock, limits, report: () => undefined });
  }

  async crash(): Promise<void> {
    this.edge.alive = false;
    this.manager = null;
    this.clock.forgetTimers();
    // What the runner was in the middle of, it finishes: then the next process looks.
    await settle();
    this.#failures.length = 0;
    await this.boot();
  }

  async act(action: Action): Promise<void> {
    const { manager } = this;
    if (manager === null) return;
    switch (action.do) {
      case 'create':
        return this.#call(this.#create(manager, action));
      case 'destroy':
        return this.#call(this.#destroy(manager, this.#id(action.which)));
      case 'stop':
        return this.#call(manager.stop(this.#id(action.which), ada));
      case 'start':
        return this.#call(manager.start(this.#id(action.which), ada));
      case 'extend':
        return this.#call(this.#extend(manager, this.#id(action.which), action.minutes));
      case 'write':
        return this.#call(this.#write(manager, this.#id(action.which)));
      case 'pass':
        return this.clock.pass(action.ms);
      case 'jump':
        return this.clock.jump(action.ms);
      case 'fail':
        return void this.#failures.push(action);
      case 'full':
      case 'room':
        this.store.full = action.do === 'full';
        return;
      case 'lose':
        return this.substrate.loseRunner();
      case 'crash':
        this.store.full = false;
        return this.crash();
      case 'settle':
        return settle();
      default:
        return action satisfies never;
    }
  }

  /** Nothing fails any more, and everything comes to rest. */
  async rest(): Promise<void> {
    this.#failures.length = 0;
    this.store.full = false;
    for (let n = 0; n < 5; n += 1) {
      await settle();
      this.clock.pass(5_001);
    }
    await settle();
  }

  #id(which: number): string {
    return this.known[which % Math.max(1, this.known.length)] ?? 'none';
  }

  #call(call: Promise<unknown>): void {
    // Every refusal is one of the registry.
    this.#calls.push(
      call.catch((error: unknown) => {
        if (!(error instanceof BoxkiteError)) throw error;
      }),
    );
  }

  async #create(manager: SandboxManager, action: Extract<Action, { do: 'create' }>): Promise<void> {
    const leaver = new AbortController();
    if (action.leave) setImmediate(() => leaver.abort());
    const made = await manager.create(
      'ada',
      { workspace: action.disk ? 'disk' : 'tmpfs', lifetime_minutes: 15 },
      { count: action.count, signal: leaver.signal },
    );
    for (const { id } of made) {
      this.known.push(id);
      this.promised.set(id, 0);
    }
  }

  async #destroy(manager: SandboxManager, id: string): Promise<void> {
    this.doomed.add(id);
    await manager.destroy(id, ada);
    this.destroyed.add(id);
  }

  async #extend(manager: SandboxManager, id: string, minutes: number): Promise<void> {
    const asked = this.clock.monotonic();
    await manager.extend(id, ada, minutes);
    this.promised.set(id, asked + minutes * MINUTE);
  }

  async #write(manager: SandboxManager, id: string): Promise<void> {
    const port = await manager.port(id, ada);
    await port.files.write('acknowledged', Buffer.from(id));
    this.written.add(id);
  }

  async check(): Promise<void> {
    const { manager, substrate, store, clock } = this;
    if (manager === null) throw new Error('no process runs');
    const listed = (await manager.list(ada, { activeOnly: false, limit: null, after: 0 })).sandboxes;
    const running = new Set([...substrate.running.values()].map(({ sandbox }) => sandbox.id));
    expect(new Set(listed.filter(({ state }) => state === 'ready').map(({ id }) => id))).toEqual(running);
    for (const { id, state, workspace, destroyed_at } of listed) {
      expect(['ready', 'stopped', 'failed', 'destroyed']).toContain(state);
      expect(store.rows.get(id)?.state).toBe(state);
      expect(workspace.kept).toBe(workspace.kind === 'disk' ? substrate.kept.has(id) : running.has(id));
      if (state === 'ready') expect((await manager.port(id, ada)).id).toBe(id);
      if (state === 'ready' || state === 'stopped') expect(destroyed_at).toBeNull();
      if (state === 'destroyed') expect(destroyed_at).not.toBeNull();
      const isGone = state === 'destroyed' || destroyed_at !== null;
      if (this.destroyed.has(id)) expect(isGone).toBe(true);
      const promised = this.promised.get(id);
      if (promised !== undefined && promised > clock.monotonic() && !this.doomed.has(id)) {
        expect(state).not.toBe('destroyed');
      }
      if (this.written.has(id) && workspace.kind === 'disk' && !isGone) {
        expect(substrate.kept.get(id)?.files.has('/workspace/acknowledged')).toBe(true);
      }
    }
    expect(running.size).toBeLessThanOrEqual(limits.perAccount);
    // Every place that is taken is somebody's.
    expect((await manager.usage('ada')).concurrent_sandboxes).toBe(
      listed.filter(({ destroyed_at }) => destroyed_at === null).length,
    );
  }
}

it('stays true through anything', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(actions, { minLength: 5, maxLength: 40 }), async (list) => {
      const world = new World();
      await world.boot();
      for (const action of list) await world.act(action);
      await world.rest();
      await world.check();
      await world.crash();
      await world.rest();
      await world.check();
    }),
    { numRuns: Number(process.env['BOXKITE_MODEL_RUNS'] ?? 300) },
  );
});
