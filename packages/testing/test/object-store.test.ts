import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FsObjectStore } from '@boxkite/storage';
import { describeObjectStore } from '../src/contract/object-store.ts';

describeObjectStore({
  name: 'a directory as an object store',
  open: async () => {
    const directory = await mkdtemp(join(tmpdir(), 'boxkite-objects-'));
    const store = await FsObjectStore.open(directory);
    return { store, close: () => rm(directory, { recursive: true, force: true }) };
  },
});
