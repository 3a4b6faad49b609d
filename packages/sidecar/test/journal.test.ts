import { readdirSync, statSync } from 'node:fs';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { type Holder, Journal, type Place } from '../src/records/journal.ts';
import type { EntryParts } from '../src/records/journal-entry.ts';

let moves = 0;
const SIZES = { segment: 2000, dead: 3000 };

/** Holds one entry, as a record does. */
class Entry implements Holder {
  readonly name: string;
  readonly output: Buffer;
  place: Place | null = null;
  gone = false;
  readonly #journal: Journal;

  constructor(journal: Journal, name: string, bytes: number) {
    this.#journal = journal;
    this.name = name;
    this.output = Buffer.alloc(bytes, `${name} `);
  }

  get parts(): EntryParts {
    return { kind: 'end', meta: this.name, effective: '{}', stdout: [this.output], stderr: [Buffer.from('err')] };
  }

  async write(): Promise<void> {
    this.place = await this.#journal.append(this.parts, this);
  }

  drop(): void {
    this.gone = true;
    if (this.place !== null) this.#journal.drop(this, this.place);
  }

  rewrite(): Promise<EntryParts | null> {
    return Promise.resolve(this.gone ? null : this.parts);
  }

  moved(place: Place): void {
    moves += 1;
    if (this.gone) this.#journal.drop(this, place);
    else this.place = place;
  }
}

/** What the next process finds. */
async function namesOf(directory: string): Promise<readonly string[]> {
  const found: string[] = [];
  await new Journal(directory).replay(({ meta }) => found.push(meta));
  return found;
}

const step = fc.record({
  bytes: fc.nat(700),
  age: fc.constantFrom(0, 1, 1, 3),
  keep: fc.nat(7).map((die) => die === 0),
});

test('a journal keeps what lives, wherever it is moved, and stays small', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 150, size: 'max' }),
      fc.string(),
      async (steps, torn) => {
        const directory = await mkdtemp(join(tmpdir(), 'boxkite-journal-'));
        const journal = new Journal(directory, SIZES);
        const entries: Entry[] = [];
        for (const [index, { bytes, age, keep }] of steps.entries()) {
          const entry = new Entry(journal, `entry-${index}`, bytes);
          entries.push(entry);
          const writing = entry.write();
          if (index % 3 === 0) await writing;
          // Most go soon; the first one keeps its segment alive.
          const old = entries[entries.length - 1 - age];
          if (old === undefined || old === entries[0] || keep) continue;
          await writing;
          old.drop();
        }
        await vi.waitFor(() => expect(entries.every(({ place }) => place !== null)).toBe(true), 20_000);
        const living = entries.filter(({ gone }) => !gone);
        for (const { place, output, name } of living) {
          const { segment, stdoutAt } = place as Place;
          expect((await journal.read(segment, output.length, stdoutAt)).equals(output), name).toBe(true);
        }
        const live = living.reduce((sum, { place }) => sum + (place?.length ?? 0), 0);
        const size = (): number =>
          readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
        const most = 2 * live + SIZES.dead + 2 * (SIZES.segment + 800);
        await vi.waitFor(() => expect(size()).toBeLessThanOrEqual(most), 20_000);
        await journal.close();
        const last = readdirSync(directory).sort().at(-1) as string;
        await appendFile(join(directory, last), torn);
        const found = new Set<string>();
        const next = new Journal(directory, SIZES);
        await next.replay(({ meta }) => found.add(meta));
        for (const { name } of living) expect(found).toContain(name);
        await rm(directory, { recursive: true });
      },
    ),
    { numRuns: 60 },
  );
  expect(moves).toBeGreaterThan(0);
});

test('what lives longest in a journal is moved to its end, and its old segment goes', async () => {
  moves = 0;
  const directory = await mkdtemp(join(tmpdir(), 'boxkite-journal-'));
  const journal = new Journal(directory, SIZES);
  const first = new Entry(journal, 'first', 300);
  await first.write();
  for (let index = 0; index < 60; index += 1) {
    const entry = new Entry(journal, `entry-${index}`, 500);
    await entry.write();
    entry.drop();
  }
  await vi.waitFor(() => expect(readdirSync(directory)).not.toContain('journal-0000000000'), 20_000);
  expect(moves).toBeGreaterThan(0);
  const { segment, stdoutAt } = first.place as Place;
  expect((await journal.read(segment, 300, stdoutAt)).equals(first.output)).toBe(true);
  await journal.close();
  await rm(directory, { recursive: true });
});

test('an entry that is written while it is asked for again is not followed by what it was before', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'boxkite-journal-'));
  const journal = new Journal(directory, { segment: 1, dead: 0 });
  const asked = Promise.withResolvers<void>();
  const given = Promise.withResolvers<EntryParts>();
  const old = new Entry(journal, 'old', 10);
  old.rewrite = () => {
    asked.resolve();
    return given.promise;
  };
  const other = new Entry(journal, 'other', 1000);
  await old.write();
  await other.write();
  await setImmediate();
  other.drop();
  await asked.promise;
  const { place: before, parts } = old;
  const writing = journal.append({ ...parts, meta: 'new' }, old);
  old.rewrite = () => Promise.resolve({ ...parts, meta: 'new' });
  given.resolve(parts);
  old.place = await writing;
  journal.drop(old, before as Place);
  await journal.close();
  expect((await namesOf(directory)).filter((name) => name !== 'other')).toEqual(['new']);
  await rm(directory, { recursive: true });
});

test('a journal that was closed moves and removes nothing more: the next one reads it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'boxkite-journal-'));
  const journal = new Journal(directory, { segment: 1, dead: 0 });
  const entries = Array.from({ length: 20 }, (_, index) => new Entry(journal, `entry-${index}`, 100));
  for (const entry of entries) await entry.write();
  await setImmediate();
  for (const entry of entries.slice(1, -1)) entry.drop();
  await setImmediate();
  entries.at(-1)?.drop();
  await journal.close();
  const names = readdirSync(directory);
  expect(await namesOf(directory)).toContain('entry-0');
  await delay(50);
  expect(readdirSync(directory)).toEqual(names);
  await rm(directory, { recursive: true });
});

test('a journal that was cleared has only what came later, also of a write under way', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'boxkite-journal-'));
  const journal = new Journal(directory, SIZES);
  const old = Array.from({ length: 10 }, (_, index) => new Entry(journal, `old-${index}`, 700));
  await Promise.all(old.slice(0, 5).map((entry) => entry.write()));
  const writing = old.slice(5).map((entry) => entry.write());
  for (const entry of old) entry.drop();
  await journal.clear();
  await Promise.all(writing);
  expect(readdirSync(directory)).toEqual([]);
  await new Entry(journal, 'new', 1).write();
  await journal.close();
  const found: string[] = [];
  await new Journal(directory, SIZES).replay(({ meta }) => found.push(meta));
  expect(found).toEqual(['new']);
  await rm(directory, { recursive: true });
});
