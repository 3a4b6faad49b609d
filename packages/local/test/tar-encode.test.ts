import fc from 'fast-check';
import { extract } from 'tar-stream';
import { expect, test } from 'vitest';
import { TAR_END, type TarEntry, tarHeader, tarPadding } from '../src/tar-encode.ts';

/** The headers of an archive as another implementation reads them. */
async function readHeaders(archive: Uint8Array): Promise<readonly Record<string, unknown>[]> {
  const reader = extract();
  const found: Record<string, unknown>[] = [];
  const done = (async () => {
    for await (const entry of reader) {
      const { name, type, mode, size, mtime, linkname } = entry.header;
      found.push({
        name: name.replace(/\/$/, ''),
        type,
        mode,
        size,
        mtime: mtime.getTime() / 1000,
        target: linkname ?? undefined,
      });
      entry.resume();
    }
  })();
  reader.write(archive);
  reader.end(undefined);
  await done;
  return found;
}

const part = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 120 })
  .filter((text) => !/[/\0]/.test(text) && text !== '.' && text !== '..');
const name = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));

const entry: fc.Arbitrary<TarEntry> = fc
  .record({
    name,
    type: fc.constantFrom('file', 'directory', 'symlink'),
    mode: fc.integer({ min: 0, max: 0o777 }),
    size: fc.integer({ min: 0, max: 2000 }),
    mtime: fc.integer({ min: 0, max: 2 ** 32 }),
    target: name,
  })
  .map((raw) => ({
    ...raw,
    size: raw.type === 'file' ? raw.size : 0,
    target: raw.type === 'symlink' ? raw.target : undefined,
  }));

test('every entry is read back as it was written', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(entry, { maxLength: 5 }), async (entries) => {
      const parts = entries.flatMap((each) => [
        tarHeader(each),
        new Uint8Array(each.size).fill(65),
        tarPadding(each.size),
      ]);
      const read = await readHeaders(Buffer.concat([...parts, TAR_END]));
      expect(read).toEqual(entries.map((each) => ({ ...each, target: each.target })));
    }),
    { numRuns: 150 },
  );
});

test('a size beyond eleven octal digits is kept', async () => {
  const header = Buffer.from(tarHeader({ name: 'huge', type: 'file', mode: 0o600, size: 8 ** 11 + 5, mtime: 0 }));
  expect(header.toString('latin1')).toContain(`size=${8 ** 11 + 5}\n`);
});

test('pax lengths count their own digits at each border', async () => {
  for (let length = 80; length < 1100; length += 1) {
    const text = 'n'.repeat(length);
    const header = tarHeader({ name: text, type: 'file', mode: 0o600, size: 0, mtime: 0 });
    if (length <= 100) continue;
    const record = Buffer.from(header.subarray(512)).toString('latin1');
    const end = record.indexOf('\n') + 1;
    expect(Number.parseInt(record, 10)).toBe(end);
  }
});
