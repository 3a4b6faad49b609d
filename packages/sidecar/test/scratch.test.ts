import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MOST_KEYS, MOST_TOTAL_BYTES, Scratch } from '../src/session/scratch.ts';
import type { StateBlob } from '../src/session/session-state.ts';
import { blobOf } from './support/sessions.ts';

const LIMIT = 1_048_576;

/** A blob as the supervisor takes it. */
function bounded(): StateBlob & { largest: number; broken: boolean } {
  const blob = blobOf();
  const made = {
    largest: 0,
    broken: false,
    get: () => blob.get(),
    put: async (bytes: Uint8Array) => {
      if (made.broken) throw new RangeError('the supervisor is gone');
      if (bytes.length > LIMIT) throw new RangeError(`${bytes.length} bytes`);
      made.largest = Math.max(made.largest, bytes.length);
      await blob.put(bytes);
    },
  };
  return made;
}

/** A character of one of the lengths that UTF-8 has, in the shares in which its bytes are the least alike. */
function densest(bytes: number): string {
  let text = '';
  let left = bytes;
  const random = (below: number): number => Math.floor(Math.random() * below);
  while (left > 0) {
    const [character, length] =
      left < 4 || Math.random() < 0.7
        ? [String.fromCodePoint(random(128)), 1]
        : Math.random() < 0.6
          ? [String.fromCodePoint(0x80 + random(0x780)), 2]
          : [String.fromCodePoint(0x10000 + random(0x100000)), 4];
    text += character;
    left -= length;
  }
  return text;
}

describe('scratch memory', () => {
  it('is a map that the next process has as well', async () => {
    const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }).filter((key) => key.trim() !== '');
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(text, fc.option(fc.string({ unit: 'binary' }), { nil: null }))),
        async (steps) => {
          const blob = bounded();
          const scratch = new Scratch(blob);
          const model = new Map<string, string>();
          for (const [key, value] of steps) {
            if (value === null) expect((await scratch.delete(key)).deleted).toBe(model.delete(key));
            else {
              await scratch.set(key, value);
              model.set(key, value);
            }
          }
          for (const one of [scratch, new Scratch(blob)]) {
            expect(one.list().entries.map(({ key }) => key)).toEqual([...model.keys()].sort());
            for (const [key, value] of model) expect(one.get(key)).toBe(value);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it('fits with all that it may hold, in any text, into what the supervisor takes', async () => {
    const blob = bounded();
    const scratch = new Scratch(blob);
    const each = MOST_TOTAL_BYTES / MOST_KEYS;
    const texts = new Map<string, string>();
    for (let n = 0; n < MOST_KEYS; n += 1) {
      const key = `${n}`.padStart(4, '0');
      texts.set(key, densest(each - 4));
    }
    for (const [key, value] of texts) await scratch.set(key, value);
    expect(scratch.list().totalBytes).toBe(MOST_TOTAL_BYTES);
    expect(blob.largest).toBeGreaterThan(LIMIT * 0.9);
    const next = new Scratch(blob);
    for (const [key, value] of texts) expect(next.get(key) === value).toBe(true);
  });

  it('has what the supervisor has, where that fails', async () => {
    const blob = bounded();
    const scratch = new Scratch(blob);
    await scratch.set('k', 'before');
    blob.broken = true;
    await expect(scratch.set('k', 'after')).rejects.toThrow('gone');
    await expect(scratch.delete('k')).rejects.toThrow('gone');
    expect(scratch.get('k')).toBe('before');
    blob.broken = false;
    await scratch.set('other', 'x');
    expect(new Scratch(blob).list().entries).toEqual([
      { key: 'k', bytes: 6 },
      { key: 'other', bytes: 1 },
    ]);
  });

  it('takes no note of a use that has ended', async () => {
    const scratch = new Scratch(bounded());
    const notes = [scratch.set('a', '1'), scratch.set('b', '2')];
    const clearing = scratch.reset();
    const outcomes = await Promise.allSettled(notes);
    await clearing;
    expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true);
    expect(scratch.list().entries).toEqual([]);
  });

  it('has a note that comes while it is cleared in the next process as well', async () => {
    const blob = blobOf();
    const { promise: later, resolve } = Promise.withResolvers<void>();
    const waits = [Promise.resolve(), later];
    const scratch = new Scratch({
      get: () => blob.get(),
      put: async (bytes) => {
        await waits.shift();
        await blob.put(bytes);
      },
    });
    await scratch.set('old', '1');
    const clearing = scratch.spent();
    const noting = scratch.set('new', '2');
    await new Promise(setImmediate);
    resolve();
    await Promise.all([clearing, noting]);
    for (const one of [scratch, new Scratch(blob)]) expect(one.list().entries).toEqual([{ key: 'new', bytes: 1 }]);
  });
});
