import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeError } from '../src/files/connection.ts';
import { decodeStat } from '../src/files/decode.ts';
import { fileErrorCodes } from '../src/files/errors.ts';
import { decodeHeader, encodeFrame, encodeHeader, headerBytes, maxPayload } from '../src/files/frames.ts';
import { PayloadReader } from '../src/files/payload.ts';

interface Vectors {
  readonly frames: readonly {
    readonly name: string;
    readonly type: number;
    readonly flags: number;
    readonly id: number;
    readonly payload: string;
    readonly bytes: string;
  }[];
  readonly refused: readonly { readonly name: string; readonly bytes: string }[];
  readonly errors: readonly {
    readonly name: string;
    readonly errno: number;
    readonly message: string;
    readonly bytes: string;
  }[];
  readonly codes: Readonly<Record<string, number>>;
  readonly stat: { readonly type: string; readonly bytes: string };
}

const path = new URL('../../../docs/reference/file-agent-vectors.json', import.meta.url);
const vectors = JSON.parse(readFileSync(path, 'utf8')) as Vectors;

test.each(vectors.frames)('frame: $name', ({ type, flags, id, payload, bytes }) => {
  const body = Buffer.from(payload, 'hex');
  expect(encodeFrame(type, flags, id, body).toString('hex')).toBe(bytes);
  expect(decodeHeader(Buffer.from(bytes, 'hex'))).toEqual({ length: body.length, type, flags, id });
});

test.each(vectors.refused)('refused: $name', ({ bytes }) => {
  expect(() => decodeHeader(Buffer.from(bytes, 'hex'))).toThrow(RangeError);
});

test.each(vectors.errors)('error: $name', ({ name, errno, message, bytes }) => {
  const decoded = decodeError(Buffer.from(bytes, 'hex').subarray(headerBytes));
  expect(decoded).toMatchObject({ code: name, errno, message });
});

test('the registry of errors', () => {
  const known = Object.entries(fileErrorCodes).map(([number, name]) => [name, Number(number)]);
  expect(Object.fromEntries(known)).toEqual(vectors.codes);
});

test('attributes', () => {
  const { bytes } = vectors.stat;
  expect(decodeStat(new PayloadReader(Buffer.from(bytes, 'hex')))).toEqual({
    type: 'file',
    mode: 0o644,
    size: 5,
    mtimeMs: 1_700_000_000_500,
    links: 2,
    inode: 42,
  });
});

test('any header survives its encoding', () => {
  const header = fc.record({
    length: fc.nat(maxPayload),
    type: fc.nat(255),
    flags: fc.nat(0xffff),
    id: fc.nat(0xffff_ffff),
  });
  fc.assert(fc.property(header, (fields) => void expect(decodeHeader(encodeHeader(fields))).toEqual(fields)));
});
