import { expect, it } from 'vitest';
import { isNotesKey, NotesBlob, notesKey } from '../../src/daemon/notes-blob.ts';
import type { BlobStore } from '../../src/daemon/supervise-control.ts';

const ID = '0b5a7d0e-3f0c-4a51-9d43-5b8f2b7c1e90';
const NOTE = Buffer.from('note');

/** Takes calls in their order, as the control socket does, and answers them a moment later. */
class QueuedBlobs implements BlobStore {
  readonly blobs = new Map<string, Uint8Array>();

  async put(key: string, blob: Uint8Array): Promise<void> {
    this.blobs.set(key, blob);
    await Promise.resolve();
  }

  async delete(key: string): Promise<void> {
    this.blobs.delete(key);
    await Promise.resolve();
  }

  list(): Promise<ReadonlyMap<string, Uint8Array>> {
    return Promise.resolve(this.blobs);
  }
}

it('has a key of its own beside that of its sandbox', () => {
  expect(notesKey(ID)).toBe('0b5a7d0e-3f0c-8a51-9d43-5b8f2b7c1e90');
  expect([isNotesKey(notesKey(ID)), isNotesKey(ID)]).toEqual([true, false]);
});

it('is kept from the first note on, and gives back what an earlier process has left', async () => {
  const store = new QueuedBlobs();
  const notes = new NotesBlob(store, ID, null);
  expect([notes.get(), store.blobs.size]).toEqual([null, 0]);
  await notes.put(NOTE);
  expect([...store.blobs]).toEqual([[notesKey(ID), NOTE]]);
  expect(new NotesBlob(store, ID, store.blobs.get(notesKey(ID)) ?? null).get()).toBe(NOTE);
});

it.each(['before', 'while', 'after'])('leaves nothing where it is removed %s the first note is put', async (when) => {
  const store = new QueuedBlobs();
  const notes = new NotesBlob(store, ID, null);
  if (when === 'before') await notes.remove();
  const put = notes.put(NOTE);
  if (when === 'after') await put;
  if (when !== 'before') await notes.remove();
  await put;
  expect([...store.blobs.keys()]).toEqual([]);
  expect(notes.get()).toBeNull();
});

it('removes what an earlier process has left', async () => {
  const store = new QueuedBlobs();
  await store.put(notesKey(ID), NOTE);
  await new NotesBlob(store, ID, NOTE).remove();
  expect(store.blobs.size).toBe(0);
});
