import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ManifestEntry, readManifest, writeManifest } from '../src/manifest.ts';
import { bytesOfPath, isPathText, isStoredPath, textOfPath } from '../src/stored-path.ts';

const HASH = 'ab'.repeat(32);

async function textOf(entries: ReadonlyMap<string, ManifestEntry>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of writeManifest(entries)) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function* inParts(text: string, size: number): AsyncGenerator<Uint8Array, void, undefined> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const name = fc
  .uint8Array({ minLength: 1, maxLength: 20 })
  .map((bytes) => bytes.map((byte) => (byte === 0 || byte === 0x2f ? 0x61 : byte)))
  .filter((bytes) => !['.', '..'].includes(Buffer.from(bytes).toString('latin1')));
const path = fc
  .array(name, { minLength: 1, maxLength: 4 })
  .map((names) =>
    textOfPath(Buffer.concat([Buffer.from('workspace'), ...names.flatMap((n) => [Buffer.from('/'), n])])),
  );
const mode = fc.integer({ min: 0, max: 0o777 });
const entry: fc.Arbitrary<ManifestEntry> = fc.oneof(
  fc.record({ path, type: fc.constant('file' as const), mode, size: fc.nat(), sha256: fc.constant(HASH) }),
  fc.record({ path, type: fc.constant('directory' as const), mode }),
  fc.record({ path, type: fc.constant('link' as const), target: name.map((bytes) => textOfPath(bytes)) }),
);

describe('paths as text', () => {
  it('have one text for each bytes, and back', () => {
    fc.assert(
      fc.property(fc.uint8Array({ min: 1 }), (bytes) => {
        const text = textOfPath(bytes);
        expect(Buffer.compare(bytesOfPath(text), bytes)).toBe(0);
        expect(isPathText(text)).toBe(bytes.length > 0);
      }),
      { numRuns: 3000 },
    );
  });

  it('are refused where two texts would mean the same bytes', () => {
    expect(isPathText('\0workspace/plain')).toBe(false);
    expect(isPathText(textOfPath(Buffer.from([0xff])))).toBe(true);
    expect(isPathText('\ud800')).toBe(false);
  });

  it.each([
    'workspace',
    '/workspace/a',
    'workspace/',
    'workspace//a',
    'workspace/../etc',
    'workspace/.',
    '',
    'a/\0b',
    `a/${'x'.repeat(256)}`,
  ])('refuse %j as a place to restore to', (text) => {
    expect(isStoredPath(text)).toBe(false);
  });
});

describe('a manifest', () => {
  it('is read as it was written, in parts of any size', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(entry, { selector: (one) => one.path, maxLength: 30 }),
        fc.integer({ min: 1, max: 50 }),
        async (all, size) => {
          const entries = new Map(all.map((one) => [one.path, one]));
          expect(await readManifest(inParts(await textOf(entries), size))).toEqual(entries);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('of 100,000 files lets other work in between', async () => {
    const entries = new Map<string, ManifestEntry>();
    for (let n = 0; n < 100_000; n += 1) {
      const place = `workspace/dir/file-${n}`;
      entries.set(place, { path: place, type: 'file', mode: 0o644, size: n, sha256: HASH });
    }
    let turns = 0;
    const counting = setInterval(() => {
      turns += 1;
    }, 0);
    const read = await readManifest(inParts(await textOf(entries), 65_536));
    clearInterval(counting);
    expect(read).toEqual(entries);
    expect(turns).toBeGreaterThan(20);
  });

  const file = { path: 'workspace/a', type: 'file', mode: 0o644, size: 1, sha256: HASH };
  it.each<[string, string]>([
    ['nothing', ''],
    ['no JSON', '{"manifest":1,"entries":1}\n{\n'],
    ['another version', '{"manifest":2,"entries":0}\n'],
    ['a cut line', `{"manifest":1,"entries":1}\n${JSON.stringify(file)}`],
    ['fewer entries', `{"manifest":1,"entries":2}\n${JSON.stringify(file)}\n`],
    ['more entries', `{"manifest":1,"entries":0}\n${JSON.stringify(file)}\n`],
    ['a path twice', `{"manifest":1,"entries":2}\n${JSON.stringify(file)}\n${JSON.stringify(file)}\n`],
    ...[
      { ...file, path: '../../etc/passwd' },
      { ...file, path: 'workspace/../../etc/passwd' },
      { ...file, path: '/etc/passwd' },
      { ...file, path: 7 },
      { ...file, mode: 0o4755 },
      { ...file, size: -1 },
      { ...file, sha256: 'AB' },
      { ...file, key: '../other/workspace/a' },
      { ...file, key: '.boxkite/names/../x' },
      { ...file, type: 'device' },
      { path: 'workspace/l', type: 'link', target: '' },
      { path: 'workspace/l', type: 'link', target: 'a\0b' },
      null,
    ].map(
      (line) => [JSON.stringify(line), `{"manifest":1,"entries":1}\n${JSON.stringify(line)}\n`] as [string, string],
    ),
    ['a long line', `{"manifest":1,"entries":1}\n${' '.repeat(100_000)}\n`],
  ])('with %s is refused', async (_what, text) => {
    await expect(readManifest(inParts(text, 1000))).rejects.toMatchObject({ code: 'storage_damaged' });
  });

  it('of anything at all is read or refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 300 }), async (text) => {
        await expect(readManifest(inParts(`{"manifest":1,"entries":1}\n${text}\n`, 7))).rejects.toMatchObject({
          code: 'storage_damaged',
        });
      }),
      { numRuns: 500 },
    );
  });
});
