import { isKey, isStoredPath, textOfPath } from '@boxkite/storage';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkPrefix,
  namespaceOf,
  namespaces,
  pathOfKey,
  placeOf,
  privateKeyOf,
  storedPath,
  storedPathOf,
} from '../src/storage/layout.ts';
import { isBelow } from '../src/storage/scan.ts';

const name = fc
  .uint8Array({ min: 1, minLength: 1, maxLength: 255 })
  .map((bytes) => Buffer.from(bytes.map((byte) => (byte === 0x2f ? 0x61 : byte))))
  .filter((bytes) => !['.', '..'].includes(bytes.toString('latin1')));
const relative = fc
  .array(name, { minLength: 1, maxLength: 5 })
  .map((names) => Buffer.concat(names.flatMap((one, index) => (index === 0 ? [one] : [Buffer.from('/'), one]))));
const space = fc.constantFrom(...namespaces);
const prefix = fc
  .array(fc.stringMatching(/^[a-z0-9-]{1,60}$/), { minLength: 1, maxLength: 5 })
  .map((parts) => parts.join('/'));

describe('stored paths', () => {
  it('lead back to the file that they are of, and nowhere else', () => {
    fc.assert(
      fc.property(space, relative, (of, bytes) => {
        const path = storedPath(of, bytes);
        expect(isStoredPath(path)).toBe(true);
        expect(namespaceOf(path)).toBe(of);
        expect(placeOf(path).bytes.equals(Buffer.concat([Buffer.from(`${of.root}/`), bytes]))).toBe(true);
        const text = bytes.toString('utf8');
        if (Buffer.from(text).equals(bytes)) expect(storedPathOf(`${of.root}/${text}`)).toBe(path);
      }),
      { numRuns: 2000 },
    );
  });

  it('have a key each, whatever their names are', () => {
    fc.assert(
      fc.property(prefix, space, relative, (below, of, bytes) => {
        const path = storedPath(of, bytes);
        const own = privateKeyOf(below, path);
        const key = `${below}/${own ?? path}`;
        expect(isKey(key)).toBe(true);
        if (own === undefined) expect(pathOfKey(below, key)).toBe(path);
        else expect(pathOfKey(below, key)).toBeNull();
      }),
      { numRuns: 2000 },
    );
  });

  it('are below a directory by bytes', () => {
    fc.assert(
      fc.property(space, relative, relative, (of, above, below) => {
        const directory = storedPath(of, above);
        expect(isBelow(storedPath(of, Buffer.concat([above, Buffer.from('/'), below])), directory)).toBe(true);
        expect(isBelow(storedPath(of, Buffer.concat([above, below])), directory)).toBe(below[0] === 0x2f);
        expect(isBelow(directory, directory)).toBe(false);
      }),
    );
  });
});

describe('a prefix', () => {
  it('is one that no key leaves, or is refused', () => {
    fc.assert(
      fc.property(fc.oneof(prefix, fc.string({ unit: 'binary' }), fc.stringMatching(/^[a./\\-]{1,8}$/)), (text) => {
        try {
          checkPrefix(text);
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'storage_prefix' } });
          return;
        }
        expect(isKey(`${text}/workspace/x`)).toBe(true);
        expect(text.split('/')).not.toContain('.boxkite');
      }),
      { numRuns: 2000 },
    );
  });
});

it('names that are no UTF-8 stay apart from those that are', () => {
  expect(textOfPath(Buffer.from([0xe9]))).not.toBe(textOfPath(Buffer.from('é')));
});
