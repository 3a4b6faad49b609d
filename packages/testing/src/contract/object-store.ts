/** One suite for every object store. It knows the port alone. */
import { createHash, randomBytes } from 'node:crypto';
import { isKey, listObjects, type ObjectStore } from '@boxkite/storage';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bytesOf, codeOf, itemsOf } from './subject.ts';

/** One implementation of the port. */
export interface ObjectStoreSubject {
  readonly name: string;
  /** An empty store. Called once before the suite. */
  open(): Promise<{ readonly store: ObjectStore; close(): Promise<void> }>;
}

const NO_KEYS = ['', '/', 'a/', '/a', 'a//b', '.', '..', 'a/../b', 'a/./b', '../../etc/passwd', 'a\\b', 'a\0b', 'a\nb'];

async function* inParts(data: Uint8Array, size: number): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

async function* failing(data: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield data;
  await Promise.resolve();
  throw new RangeError('the source broke');
}

function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/** Declares the suite for one implementation. */
export function describeObjectStore(subject: ObjectStoreSubject): void {
  describe(subject.name, () => {
    let opened: Awaited<ReturnType<ObjectStoreSubject['open']>>;
    let store: ObjectStore;
    beforeAll(async () => {
      opened = await subject.open();
      store = opened.store;
    });
    afterAll(async () => {
      await opened.close();
    });
    const text = async (key: string): Promise<string | null> => {
      const found = await store.get(key);
      return found === null ? null : (await bytesOf(found.body)).toString();
    };
    const keysOf = async (prefix: string): Promise<string[]> =>
      (await itemsOf(listObjects(store, prefix))).map(({ key }) => key);

    it.each([0, 1, 65_536, 3_000_001])('keeps %i bytes, put whole and in parts', async (size) => {
      const data = randomBytes(size);
      await store.put('bytes/whole', data);
      const put = await store.put('bytes/parts', inParts(data, 10_007), { sha256: sha256(data) });
      expect(put).toMatchObject({ key: 'bytes/parts', size });
      for (const key of ['bytes/whole', 'bytes/parts']) {
        const found = await store.get(key);
        if (found === null) throw new TypeError('it is gone');
        expect(found.info).toMatchObject({ key, size });
        expect((await bytesOf(found.body)).equals(data)).toBe(true);
        expect(await store.head(key)).toEqual(found.info);
      }
    });

    it('says that there is none, and deletes what is not there', async () => {
      expect([await store.get('none/here'), await store.head('none/here')]).toEqual([null, null]);
      await store.delete('none/here');
      await store.put('none/here', Buffer.from('x'));
      await store.delete('none/here');
      await store.delete('none/here');
      expect(await store.head('none/here')).toBeNull();
    });

    it('has a key and keys below it side by side', async () => {
      for (const key of ['side', 'side/by', 'side/by/side', 'side+', 'side+/x', 'side%', 'side%25']) {
        await store.put(key, Buffer.from(key));
      }
      for (const key of ['side', 'side/by', 'side/by/side', 'side+', 'side+/x', 'side%', 'side%25']) {
        expect(await text(key)).toBe(key);
      }
      await store.delete('side/by');
      expect([await text('side'), await text('side/by'), await text('side/by/side')]).toEqual([
        'side',
        null,
        'side/by/side',
      ]);
    });

    it.each(NO_KEYS)('refuses the key %j in every call', async (key) => {
      expect(isKey(key)).toBe(false);
      expect(await codeOf(store.put(key, Buffer.from('x')))).toBe('invalid_request');
      expect(await codeOf(store.get(key))).toBe('invalid_request');
      expect(await codeOf(store.head(key))).toBe('invalid_request');
      expect(await codeOf(store.delete(key))).toBe('invalid_request');
      if (key !== '') expect(await codeOf(store.page(`${key}/`))).toBe('invalid_request');
    });

    it.each([
      'with space',
      'ünïcödé ☃',
      'quote\'"',
      '-dash',
      '%2F',
      '#?&=',
      '~',
      '.hidden',
      'x'.repeat(254),
      '😀\ufb01',
    ])('takes the name %j', async (name) => {
      const key = `names/${name}/${name}`;
      await store.put(key, Buffer.from(name));
      expect(await text(key)).toBe(name);
      expect(await keysOf('names/')).toEqual([key]);
      await store.delete(key);
      expect(await keysOf('names/')).toEqual([]);
    });

    it('lists in byte order, in pages, below a whole name', async () => {
      const keys = ['p/a', 'p/a.b', 'p/a/b', 'p/a/c/d', 'p/a0', 'p/z', 'p/\u00e9', 'p/\uffee', 'p/\u{1f600}', 'pp/x'];
      for (const key of [...keys].reverse()) await store.put(key, Buffer.from('x'));
      const below = keys.slice(0, -1);
      expect(await keysOf('p/')).toEqual(below);
      for (const limit of [1, 2, 4]) {
        const found: string[] = [];
        let after: string | undefined;
        for (;;) {
          const { objects, next } = await store.page('p/', { after, limit });
          found.push(...objects.map(({ key }) => key));
          if (next === null) break;
          expect(objects.length).toBe(limit);
          after = next;
        }
        expect(found).toEqual(below);
      }
      expect((await store.page('p/', { after: 'p/a/b' })).objects.map(({ key }) => key)).toEqual(below.slice(3));
      expect(await codeOf(store.page('p'))).toBe('invalid_request');
      expect(await codeOf(store.page('p/', { limit: 0 }))).toBe('invalid_request');
    });

    it('changes the version with every put, and puts only over the one that is meant', async () => {
      const first = await store.put('versions/x', Buffer.from('same'));
      const second = await store.put('versions/x', Buffer.from('same'));
      expect(second.version).not.toBe(first.version);
      const over = (ifVersion: string | null) => store.put('versions/x', Buffer.from('new'), { ifVersion });
      expect(await codeOf(over(first.version))).toBe('object_changed');
      expect(await codeOf(over(null))).toBe('object_changed');
      expect(await text('versions/x')).toBe('same');
      await over(second.version);
      expect(await text('versions/x')).toBe('new');
      await store.put('versions/y', Buffer.from('x'), { ifVersion: null });
      await store.delete('versions/y');
      expect(await codeOf(store.put('versions/y', Buffer.from('x'), { ifVersion: first.version }))).toBe(
        'object_changed',
      );
    });

    it('lets one of many win who put over the same version', async () => {
      const { version } = await store.put('race/x', Buffer.from('start'));
      const outcomes = await Promise.allSettled(
        Array.from({ length: 20 }, (_, n) => store.put('race/x', Buffer.from(`${n}`), { ifVersion: version })),
      );
      const winners = outcomes.flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : []));
      expect(winners.length).toBe(1);
      expect(await text('race/x')).toBe(`${winners[0]}`);
    });

    it('keeps what was there when a put fails, is aborted or has other bytes', async () => {
      await store.put('whole/x', Buffer.from('before'));
      const data = randomBytes(300_000);
      await expect(store.put('whole/x', failing(data))).rejects.toThrow('the source broke');
      expect(await codeOf(store.put('whole/x', data, { sha256: sha256(Buffer.from('other')) }))).toBe(
        'object_mismatch',
      );
      const aborting = new AbortController();
      const source = (async function* () {
        yield data;
        aborting.abort(new RangeError('enough'));
        await Promise.resolve();
        yield data;
      })();
      await expect(store.put('whole/x', source, {}, aborting.signal)).rejects.toThrow('enough');
      await expect(store.put('whole/x', data, {}, AbortSignal.abort(new RangeError('at once')))).rejects.toThrow(
        'at once',
      );
      expect(await text('whole/x')).toBe('before');
      expect(await keysOf('whole/')).toEqual(['whole/x']);
    });

    it('reads one version to its end while others are put', async () => {
      const [old, fresh] = [Buffer.alloc(2_000_000, 'a'), Buffer.alloc(2_000_000, 'b')];
      await store.put('stable/x', old);
      const found = await store.get('stable/x');
      if (found === null) throw new TypeError('it is gone');
      await store.put('stable/x', fresh);
      expect((await bytesOf(found.body)).equals(old)).toBe(true);
      const left = await store.get('stable/x');
      for await (const _ of left?.body ?? []) break;
      const unread = await store.get('stable/x');
      for (const one of [found, left, unread, unread]) await one?.close();
    });

    it('takes puts and deletes of neighbours at once', async () => {
      await Promise.all(
        Array.from({ length: 40 }, async (_, n) => {
          for (let round = 0; round < 5; round += 1) {
            await store.put(`busy/d${n % 3}/x${n}`, Buffer.from(`${n}`));
            if (n % 2 === 0) await store.delete(`busy/d${n % 3}/x${n}`);
          }
        }),
      );
      const left = (await keysOf('busy/')).map((key) => Number(/x(\d+)$/.exec(key)?.[1]));
      expect(left.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => 2 * n + 1));
    });
  });
}
