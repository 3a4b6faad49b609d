import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { directoryName, objectPath, segmentOfDirectory, segmentOfObject } from '../src/fs/file-names.ts';
import { FsObjectStore } from '../src/fs/fs-object-store.ts';
import { byBytes, isKey, listObjects, type ObjectStore } from '../src/index.ts';

const disk = vi.hoisted(() => ({ code: null as string | null }));

vi.mock('../src/fs/durable.ts', async (original) => {
  const real = await original<typeof import('../src/fs/durable.ts')>();
  return {
    ...real,
    writeAll: (...args: Parameters<typeof real.writeAll>) =>
      disk.code === null
        ? real.writeAll(...args)
        : Promise.reject(Object.assign(new Error('write failed'), { code: disk.code, syscall: 'write' })),
  };
});

let base: string;
let store: ObjectStore;

beforeEach(async () => {
  disk.code = null;
  base = await mkdtemp(join(tmpdir(), 'boxkite-objects-'));
  store = await FsObjectStore.open(join(base, 'store'));
});

afterEach(() => rm(base, { recursive: true, force: true }));

async function textOf(key: string): Promise<string | null> {
  const found = await store.get(key);
  if (found === null) return null;
  const parts: Uint8Array[] = [];
  for await (const part of found.body) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function allFiles(): Promise<string[]> {
  const entries = await readdir(base, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

/** Names that are near to the borders of what is allowed. */
const segment = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }),
  fc.stringMatching(/^[a.+%/~\\-]{1,6}$/),
);
const anyKey = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));

describe('keys as paths', () => {
  it('stay below the directory, or are refused', () => {
    fc.assert(
      fc.property(fc.oneof(anyKey, fc.string({ unit: 'binary' })), (key) => {
        if (!isKey(key)) {
          expect(() => objectPath(key)).toThrow('a key is to have');
          return;
        }
        const path = objectPath(key);
        expect(join('/base', path).startsWith('/base/')).toBe(true);
        expect(path.split('/').every((name) => name !== '' && name !== '.' && name !== '..')).toBe(true);
        expect(path.split('/').every((name) => Buffer.byteLength(name) <= 255)).toBe(true);
      }),
      { numRuns: 5000 },
    );
  });

  it('are found again from the names, and no two share one', () => {
    fc.assert(
      fc.property(anyKey.filter(isKey), (key) => {
        const names = objectPath(key).split('/');
        const last = names.pop() ?? '';
        expect([...names.map(segmentOfDirectory), segmentOfObject(last)].join('/')).toBe(key);
        // What is an object's name is no directory's.
        expect(segmentOfDirectory(last)).toBeNull();
        expect(names.map((name) => segmentOfObject(name))).toEqual(names.map(() => null));
        expect(segmentOfDirectory(directoryName(last))).toBe(last);
      }),
      { numRuns: 5000 },
    );
  });
});

describe('a directory as an object store', () => {
  it('is a map from keys to bytes, listed in byte order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(anyKey.filter(isKey), fc.option(fc.string(), { nil: null })), { maxLength: 20 }),
        async (steps) => {
          const model = new Map<string, string>();
          const root = join(base, 'model');
          await rm(root, { recursive: true, force: true });
          store = await FsObjectStore.open(root);
          for (const [key, text] of steps) {
            if (text === null) {
              await store.delete(key);
              model.delete(key);
            } else {
              await store.put(key, Buffer.from(text));
              model.set(key, text);
            }
          }
          const keys: string[] = [];
          for await (const { key } of listObjects(store, '')) keys.push(key);
          expect(keys).toEqual([...model.keys()].sort(byBytes));
          for (const [key, text] of model) expect(await textOf(key)).toBe(text);
          if (model.size === 0) expect(await readdir(join(root, 'objects'))).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('is private, and goes on where an earlier process ended in the middle', async () => {
    expect((await stat(join(base, 'store'))).mode & 0o777).toBe(0o700);
    await store.put('a/b', Buffer.from('x'));
    expect((await stat(join(base, 'store/objects/a+/b'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(base, 'store/objects/a+'))).mode & 0o777).toBe(0o700);
    await writeFile(join(base, 'store/staging/left'), 'half');
    store = await FsObjectStore.open(join(base, 'store'));
    expect(await textOf('a/b')).toBe('x');
    expect(await readdir(join(base, 'store/staging'))).toEqual([]);
  });

  it.each([
    ['ENOSPC', 'storage_full', 507],
    ['EDQUOT', 'storage_full', 507],
    ['EIO', 'storage_unavailable', 500],
  ])('says what %s is, and changes nothing', async (code, expected, _status) => {
    await store.put('a', Buffer.from('before'));
    disk.code = code;
    const error: unknown = await store.put('a', Buffer.from('after')).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: expected });
    // No path of this machine.
    expect(JSON.stringify(error)).not.toContain(base);
    disk.code = null;
    expect(await textOf('a')).toBe('before');
    expect(await allFiles()).toEqual(['a']);
  });

  // Only root can mount a disk that is small enough.
  if (process.getuid?.() === 0) {
    it('says that a disk is full, and changes nothing', async () => {
      const mount = join(base, 'small');
      await mkdir(mount);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', mount]);
      try {
        store = await FsObjectStore.open(join(mount, 'store'));
        await store.put('a', Buffer.alloc(300_000, 'x'));
        await expect(store.put('a', Buffer.alloc(900_000, 'y'))).rejects.toMatchObject({ code: 'storage_full' });
        expect((await textOf('a'))?.length).toBe(300_000);
        await store.put('b', Buffer.alloc(300_000));
      } finally {
        execFileSync('umount', [mount]);
      }
    });
  }

  it('follows no link, and lists nothing that is not an object', async () => {
    await writeFile(join(base, 'secret'), 'secret');
    await store.put('a/b', Buffer.from('x'));
    await symlink(join(base, 'secret'), join(base, 'store/objects/a+/link'));
    await symlink(base, join(base, 'store/objects/out+'));
    await mkdir(join(base, 'store/objects/plain'));
    await expect(store.get('a/link')).rejects.toMatchObject({ code: 'storage_unavailable' });
    const keys: string[] = [];
    for await (const { key } of listObjects(store, '')) keys.push(key);
    expect(keys).toEqual(['a/b']);
    expect(await readFile(join(base, 'secret'), 'utf8')).toBe('secret');
  });
});
