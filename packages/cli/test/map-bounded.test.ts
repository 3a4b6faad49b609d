/** Several at once, and no more. */
import { expect, test } from 'vitest';
import { mapBounded } from '../src/map-bounded.ts';

test('results come in order, with no more at once than allowed', async () => {
  let running = 0;
  let most = 0;
  const results = await mapBounded([5, 1, 3, 2, 4], 2, async (item) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, item));
    running -= 1;
    return item * 10;
  });
  expect(results).toEqual([50, 10, 30, 20, 40]);
  expect(most).toBe(2);
});

test('after the first error nothing is begun', async () => {
  const begun: number[] = [];
  const mapping = mapBounded([0, 1, 2, 3, 4, 5], 2, async (item) => {
    begun.push(item);
    await new Promise((resolve) => setTimeout(resolve, 1 + item));
    if (item === 0) throw new Error('first');
  });
  await expect(mapping).rejects.toThrow('first');
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(begun).toEqual([0, 1]);
});
