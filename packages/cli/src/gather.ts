/** Everything that an iteration yields. */
export async function gather<T>(source: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const each of source) all.push(each);
  return all;
}
