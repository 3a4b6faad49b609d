/** Maps by an asynchronous function with at most `most` calls at once; results in the order of the items. After the first error no other call is begun. */
export async function mapBounded<T, R>(
  items: readonly T[],
  most: number,
  map: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = new Array<R>(items.length);
  // A loop that is left by an error ends its generator, and so the loops of all.
  const rest = (function* () {
    yield* items.entries();
  })();
  const work = async (): Promise<void> => {
    for (const [index, item] of rest) results[index] = await map(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, work));
  return results;
}
