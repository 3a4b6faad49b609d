/**
 * Runs a task for each item, at most `width` at once, results in the items' order. The first failure lets the running
 * tasks end, starts no more, and is thrown.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  width: number,
  task: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results = new Map<number, Result>();
  const queue = items.entries();
  let stopped = false;
  const workers = Array.from({ length: Math.min(width, items.length) }, async () => {
    // One shared iterator: each worker takes the next item that nobody has taken.
    for (const [index, item] of queue) {
      if (stopped) return;
      try {
        results.set(index, await task(item));
      } catch (error) {
        stopped = true;
        throw error;
      }
    }
  });
  for (const outcome of await Promise.allSettled(workers)) if (outcome.status === 'rejected') throw outcome.reason;
  return [...results].sort(([a], [b]) => a - b).map(([, result]) => result);
}
