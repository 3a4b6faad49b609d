import { expect, it } from 'vitest';
import { SharedCall } from '../src/shared-call.ts';

function shared() {
  const found = { now: 0, calls: [] as PromiseWithResolvers<number>[] };
  const call = new SharedCall<number>(
    () => {
      const one = Promise.withResolvers<number>();
      found.calls.push(one);
      return one.promise;
    },
    () => found.now,
  );
  return { found, call };
}

it('is one call for all who ask while it runs, and for a while in proportion to it', async () => {
  const { found, call } = shared();
  const both = [call.get(), call.get()];
  found.now = 10;
  found.calls[0]?.resolve(1);
  expect(await Promise.all([...both, call.get()])).toEqual([1, 1, 1]);
  found.now = 49;
  expect(await call.get()).toBe(1);
  expect(found.calls).toHaveLength(1);
  found.now = 50;
  const next = call.get();
  found.calls[1]?.resolve(2);
  expect(await next).toBe(2);
});

it('gives no failure again', async () => {
  const { found, call } = shared();
  const first = call.get();
  found.calls[0]?.reject(new Error('no'));
  await expect(first).rejects.toThrow('no');
  const second = call.get();
  found.calls[1]?.resolve(2);
  expect(await second).toBe(2);
});
