/** Runs calls for all items, so many at a time. The first failure is the answer once all that run have ended. */
export async function forEachOf<T>(items: Iterable<T>, most: number, call: (item: T) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]();
  let failure: { readonly error: unknown } | null = null;
  const work = async (): Promise<void> => {
    for (let next = waiting.next(); next.done !== true && failure === null; next = waiting.next()) {
      try {
        await call(next.value);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: most }, work));
  // Not narrowed by the compiler: `work` has set it.
  const failed = failure as { readonly error: unknown } | null;
  if (failed !== null) throw failed.error;
}
