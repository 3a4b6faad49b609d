import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  freshNonce,
  MalformedReply,
  NONCE_BYTES,
  ReplyReader,
  readCodeReply,
  readHelloReply,
} from '../src/interpreter/messages.ts';
import { OutputReader } from '../src/interpreter/output.ts';

const HEAD = 24;

function piece(nonce: Buffer, body: Buffer, place: number, last: boolean): Buffer {
  const head = Buffer.alloc(HEAD - NONCE_BYTES);
  head.writeUInt8(2, 0);
  head.writeUInt8(last ? 1 : 0, 1);
  head.writeUInt16LE(place, 2);
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([nonce, head, body]);
}

function inParts(data: Buffer, sizes: readonly number[]): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0, turn = 0; at < data.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    parts.push(data.subarray(at, at + size));
    at += size;
  }
  return parts;
}

const bytes = fc.uint8Array({ maxLength: 60 }).map((data) => Buffer.from(data));
const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 6 });

describe('a reply', () => {
  it('is found whole among anything, however it arrives, and the rest is counted', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(bytes, bytes), { minLength: 1, maxLength: 6 }),
        bytes,
        sizes,
        (pieces, after, parts) => {
          const nonce = randomBytes(NONCE_BYTES);
          const reader = new ReplyReader();
          reader.expect(nonce, 10_000);
          const sent = pieces.flatMap(([foreign, body], place) => [
            foreign,
            piece(nonce, body, place, place === pieces.length - 1),
          ]);
          const replies = inParts(Buffer.concat([...sent, after]), parts).map((part) => reader.push(part));
          const found = replies.filter((reply) => reply !== null);
          expect(found).toEqual([Buffer.concat(pieces.map(([, body]) => body))]);
          const foreign = pieces.reduce((sum, [data]) => sum + data.length, after.length);
          expect(reader.dropped.bytes).toBe(foreign);
        },
      ),
    );
  });

  it('of another nonce is none, also one that was cut off', () => {
    const reader = new ReplyReader();
    const [old, present] = [randomBytes(NONCE_BYTES), randomBytes(NONCE_BYTES)];
    reader.expect(old, 100);
    expect(reader.push(piece(old, Buffer.from('lost'), 0, true).subarray(0, 26))).toBeNull();
    reader.expect(present, 100);
    expect(reader.push(piece(old, Buffer.from('late'), 0, true))).toBeNull();
    expect(reader.push(piece(present, Buffer.from('right'), 0, true))?.toString()).toBe('right');
    expect(reader.push(Buffer.from('between'))).toBeNull();
    expect(reader.dropped.bytes).toBe(26 + 28 + 7);
  });

  it('with a piece twice has it once', () => {
    const nonce = randomBytes(NONCE_BYTES);
    const reader = new ReplyReader();
    reader.expect(nonce, 100);
    reader.push(piece(nonce, Buffer.from('a'), 0, false));
    reader.push(piece(nonce, Buffer.from('a'), 0, false));
    expect(reader.push(piece(nonce, Buffer.from('b'), 1, true))?.toString()).toBe('ab');
  });

  it.each([
    ['too many bytes', (nonce: Buffer) => piece(nonce, Buffer.alloc(200), 0, false)],
    ['a piece missing', (nonce: Buffer) => piece(nonce, Buffer.alloc(1), 1, false)],
    ['too long a piece', (nonce: Buffer) => piece(nonce, Buffer.alloc(20_000), 0, false)],
  ])('with %s is malformed', (_, make) => {
    const nonce = randomBytes(NONCE_BYTES);
    const reader = new ReplyReader();
    reader.expect(nonce, 100);
    expect(() => reader.push(make(nonce))).toThrow(MalformedReply);
  });

  it('of whatever bytes is read or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (data) => {
        for (const read of [readCodeReply, readHelloReply]) {
          try {
            read(Buffer.from(data));
          } catch (error) {
            expect(error).toBeInstanceOf(MalformedReply);
          }
        }
      }),
    );
  });
});

describe('output', () => {
  it('keeps the first bytes of a call, and says whether there were more', () => {
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 6 }), fc.integer({ min: 0, max: 200 }), (parts, most) => {
        const reader = new OutputReader();
        reader.push(Buffer.from('of no call'));
        reader.begin(most);
        for (const part of parts) reader.push(part);
        const all = Buffer.concat(parts);
        expect(reader.end()).toEqual({ bytes: all.subarray(0, most), truncated: all.length > most });
      }),
    );
  });

  it('with a gap is cut', () => {
    const reader = new OutputReader();
    reader.begin(10);
    reader.gap();
    expect(reader.end().truncated).toBe(true);
  });
});

it('makes no two nonces alike, nor changes one by those after it', () => {
  const nonces = Array.from({ length: 1000 }, freshNonce);
  const texts = nonces.map((nonce) => nonce.toString('hex'));
  expect(new Set(texts).size).toBe(1000);
  for (const nonce of nonces) expect(nonce).toHaveLength(16);
  Array.from({ length: 1000 }, freshNonce);
  expect(nonces.map((nonce) => nonce.toString('hex'))).toEqual(texts);
});
