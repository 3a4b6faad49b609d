/** What one process sees of a substrate and a store: after its death its calls do nothing and answer nothing. */
import type { Clock, SessionStore, Substrate } from '../src/index.ts';
import type { FakeSubstrate } from './fake-substrate.ts';
import type { FakeClock, MemoryStore } from './fakes.ts';

const NEVER = new Promise<never>(() => undefined);

export class ProcessEdge {
  alive = true;
  readonly substrate: Substrate;
  readonly store: SessionStore;
  readonly clock: Clock;

  constructor(substrate: FakeSubstrate, store: MemoryStore, clock: FakeClock) {
    const through = <A extends unknown[], R>(call: (...args: A) => Promise<R>) => {
      return async (...args: A): Promise<R> => {
        if (!this.alive) return NEVER;
        try {
          const result = await call(...args);
          return this.alive ? result : await NEVER;
        } catch (error) {
          if (!this.alive) return NEVER;
          throw error;
        }
      };
    };
    this.substrate = {
      start: through(substrate.start.bind(substrate)),
      claim: through(substrate.claim.bind(substrate)),
      endpoint: through(substrate.endpoint.bind(substrate)),
      destroy: through(substrate.destroy.bind(substrate)),
      stop: through(substrate.stop.bind(substrate)),
      discard: through(substrate.discard.bind(substrate)),
      workspaces: through(substrate.workspaces.bind(substrate)),
      list: through(substrate.list.bind(substrate)),
      watch: (signal) => substrate.watch(signal),
    };
    this.store = {
      insert: through(store.insert.bind(store)),
      update: through(store.update.bind(store)),
      get: through(store.get.bind(store)),
      unfinished: through(store.unfinished.bind(store)),
      finished: through(store.finished.bind(store)),
      account: through(store.account.bind(store)),
      forget: through(store.forget.bind(store)),
    };
    this.clock = {
      wall: () => clock.wall(),
      monotonic: () => clock.monotonic(),
      boot: clock.boot,
      timer: (ms, callback) => clock.timer(ms, () => (this.alive ? callback() : undefined)),
    };
  }
}
