import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { RunnerFiles } from '@boxkite/runner-client';
import { FsObjectStore } from '@boxkite/storage';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PromptStore } from '../src/storage/prompt-store.ts';
import { restore } from '../src/storage/restore.ts';
import { StoredManifest } from '../src/storage/stored-manifest.ts';
import { ModelRunner, SANDBOX } from './support/model-runner.ts';

let base: string;
let store: FsObjectStore;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'boxkite-restore-'));
  store = await FsObjectStore.open(base);
});

afterEach(() => rm(base, { recursive: true, force: true }));

/** Objects that this process has open. */
async function open(): Promise<string[]> {
  const links = (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''));
  return (await Promise.all(links)).filter((path) => path.startsWith(base));
}

describe('a restore that nothing can be written for any more', () => {
  it('lets go of every object that it has opened', async () => {
    await using runner = await ModelRunner.start({});
    const { access } = await runner.connect();
    const files = new RunnerFiles(access, SANDBOX);
    files.close(new BoxkiteError('generation_gone', 'the sandbox is configured anew'));
    const { signal } = new AbortController();
    // More than what is written whole.
    for (const name of ['a', 'b']) await store.put(`p/workspace/${name}`, Buffer.alloc(100_000));
    const manifest = await StoredManifest.load(store, 'p', signal);
    const parts = { store, prefix: 'p', files, provision: files, signal };
    await expect(restore(parts, manifest)).rejects.toMatchObject({ code: 'generation_gone' });
    expect(await open()).toEqual([]);
  });
});

describe('a store whose calls end at once', () => {
  it('lets go of an object that it is given after that', async () => {
    await store.put('late', Buffer.from('x'));
    const gate = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    const slow = new PromptStore(
      Object.assign(Object.create(store) as FsObjectStore, {
        get: async () => {
          const found = await store.get('late');
          opened.resolve();
          await gate.promise;
          return found;
        },
      }),
    );
    const aborting = new AbortController();
    const getting = slow.get('late', aborting.signal);
    await opened.promise;
    aborting.abort(new RangeError('enough'));
    await expect(getting).rejects.toThrow('enough');
    expect(await open()).toHaveLength(1);
    gate.resolve();
    await new Promise(setImmediate);
    await expect.poll(open).toEqual([]);
  });
});
