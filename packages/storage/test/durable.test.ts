import { mkdtemp, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirectorySyncs, placeDurably } from '../src/fs/durable.ts';

let base: string;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'boxkite-durable-'));
});

afterEach(() => rm(base, { recursive: true, force: true }));

/** A disk that syncs one directory when it is told to, or not at all. */
class SlowSyncs extends DirectorySyncs {
  readonly entered = Promise.withResolvers<void>();
  readonly #gate = Promise.withResolvers<void>();
  readonly #slow: string;

  constructor(slow: string) {
    super();
    this.#slow = slow;
  }

  override async sync(path: string): Promise<void> {
    if (path === this.#slow) {
      this.entered.resolve();
      await this.#gate.promise;
    }
    return super.sync(path);
  }

  go(): void {
    this.#gate.resolve();
  }

  fail(error: Error): void {
    this.#gate.reject(error);
  }
}

describe('a file that gets its place in a directory that another call is making', () => {
  async function place(syncs: SlowSyncs) {
    for (const name of ['one', 'two']) await writeFile(join(base, name), name);
    const first = placeDurably(base, join(base, 'one'), join(base, 'a/b/one'), syncs);
    await syncs.entered.promise;
    const second = placeDurably(base, join(base, 'two'), join(base, 'a/two'), syncs);
    let settled = false;
    const done = (): void => {
      settled = true;
    };
    second.then(done, done);
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
    expect(settled).toBe(false);
    return [first, second];
  }

  it('is not there for good before the directory is', async () => {
    const syncs = new SlowSyncs(base);
    const placed = await place(syncs);
    syncs.go();
    await Promise.all(placed);
  });

  it('is not there for good where the directory is not', async () => {
    const syncs = new SlowSyncs(base);
    const placed = await place(syncs);
    syncs.fail(new RangeError('the disk is gone'));
    const outcomes = await Promise.allSettled(placed);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });
});

it('gives a file its place where the directory is removed while it is synced', async () => {
  const syncs = new SlowSyncs(join(base, 'a'));
  await writeFile(join(base, 'one'), 'one');
  const placing = placeDurably(base, join(base, 'one'), join(base, 'a/b/one'), syncs);
  await syncs.entered.promise;
  for (const empty of ['a/b', 'a']) await rmdir(join(base, empty));
  syncs.go();
  await placing;
  expect(await readFile(join(base, 'a/b/one'), 'utf8')).toBe('one');
});
