/** The descriptors of this process, for tests of what happens without any. */
import { closeSync, openSync } from 'node:fs';

/** Takes all descriptors that this process may still have but so many, until it is disposed. */
export function takeDescriptors(but: number): Disposable {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    for (const fd of taken.splice(0, but)) closeSync(fd);
  }
  return {
    [Symbol.dispose]: () => {
      for (const fd of taken) closeSync(fd);
    },
  };
}
