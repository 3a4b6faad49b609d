import { describe, expect, it } from 'vitest';
import { MOST_ENDED, MOST_ENDED_TEXT, RecordStore } from '../src/records/record-store.ts';
import { RecordedExec } from '../src/records/recorded-exec.ts';

let sequence = 0;

function execOf(length: number, exit_code: number | null = 0): RecordedExec {
  sequence += 1;
  const meta = { exec_id: `e${sequence}`, sequence, argv: ['true', 'x'.repeat(length)], cwd: '/' };
  const exec = Object.create(RecordedExec.prototype) as RecordedExec;
  return Object.assign(exec, { meta, log: { record: { exit_code } }, storage: { remove: () => Promise.resolve() } });
}

function end(store: RecordStore, exec: RecordedExec): void {
  store.add(exec);
  store.ended(exec);
}

describe('ended records', () => {
  it('are bounded in number, the oldest go first', () => {
    const store = new RecordStore();
    const all = Array.from({ length: MOST_ENDED + 5 }, () => execOf(1));
    for (const exec of all) end(store, exec);
    expect(store.list()).toEqual(all.slice(5));
  });

  it('are counted, and so are those that did not exit with 0', () => {
    const store = new RecordStore();
    for (const code of [0, 1, null, 0, 255]) end(store, execOf(1, code));
    store.add(execOf(1));
    expect(store.counts).toEqual({ ended: 5, failed: 3 });
  });

  it('are bounded by the length of their command lines', () => {
    const store = new RecordStore();
    const running = execOf(MOST_ENDED_TEXT);
    store.add(running);
    const all = Array.from({ length: 100 }, () => execOf(1024 * 1024));
    for (const exec of all) end(store, exec);
    expect(store.list()).toEqual([running, ...all.slice(-7)]);
    expect(store.running).toBe(1);
    const [, small] = [store.forget(all[99] as RecordedExec), execOf(1)];
    end(store, small);
    expect(store.list()).toHaveLength(8);
  });

  it('hold the last one whatever its size', () => {
    const store = new RecordStore();
    const [small, large, next] = [execOf(1), execOf(2 * MOST_ENDED_TEXT), execOf(1)];
    end(store, small);
    end(store, large);
    expect(store.list()).toEqual([large]);
    end(store, next);
    expect(store.list()).toEqual([next]);
  });
});
