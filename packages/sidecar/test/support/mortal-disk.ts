/** The real disk for a "process" that can be killed at any of its operations: what follows that one never happens. */
import { AsyncLocalStorage } from 'node:async_hooks';

/** One life of a process. */
export interface Life {
  /** Operations until its death; infinite for none. */
  operations: number;
  /** Share of the last write that still happens. */
  readonly share: number;
  dead: boolean;
  /** Operations under way: the kernel finishes them before it is dead. */
  active: number;
  onDeath: (() => void) | null;
}

const lives = new AsyncLocalStorage<Life>();

/** Runs something as a process of its own. */
export function inLife<T>(life: Life, run: () => T): T {
  return lives.run(life, run);
}

const never = new Promise<never>(() => undefined);

type Disk = typeof import('../../src/records/disk.ts');

/** For `vi.mock` of the module of the disk. */
export function mortal(disk: Disk): Disk {
  const step = (): 'alive' | 'dead' | 'dying' => {
    const life = lives.getStore();
    if (life === undefined) return 'alive';
    if (life.dead) return 'dead';
    life.operations -= 1;
    if (life.operations > 0) return 'alive';
    life.dead = true;
    return 'dying';
  };
  const die = async (): Promise<never> => {
    const life = lives.getStore();
    while ((life?.active ?? 0) > 0) await new Promise((resolve) => setImmediate(resolve));
    life?.onDeath?.();
    return never;
  };
  const tracked = async <R>(operation: Promise<R>): Promise<R> => {
    const life = lives.getStore();
    if (life !== undefined) life.active += 1;
    try {
      return await operation;
    } finally {
      if (life !== undefined) life.active -= 1;
    }
  };
  const guarded =
    <A extends unknown[], R>(run: (...args: A) => Promise<R>) =>
    (...args: A): Promise<R> => {
      const state = step();
      return state === 'alive' ? tracked(run(...args)) : state === 'dead' ? never : die();
    };
  return {
    ...disk,
    openFile: guarded(disk.openFile),
    truncateFile: guarded(disk.truncateFile),
    removeFile: guarded(disk.removeFile),
    removeIfThere: guarded(disk.removeIfThere),
    writeAt: async (fd, pieces, position) => {
      const state = step();
      if (state === 'alive') return tracked(disk.writeAt(fd, pieces, position));
      if (state === 'dead') return never;
      const whole = Buffer.concat(pieces);
      const share = Math.floor(whole.length * (lives.getStore()?.share ?? 0));
      // A page is written whole or not at all.
      await disk.writeAt(fd, [whole.subarray(0, whole.length <= 4096 && position === 0 ? 0 : share)], position);
      return die();
    },
  };
}
