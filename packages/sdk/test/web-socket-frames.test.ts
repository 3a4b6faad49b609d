import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader, frame, OPCODE } from '../src/node/web-socket-frames.ts';

/** A frame as a server sends it. */
function served(opcode: number, payload: Uint8Array, final = true): Uint8Array {
  const masked = Buffer.from(frame(opcode, payload, new Uint8Array(4)));
  const header = masked.length - payload.length - 4;
  const whole = Buffer.concat([masked.subarray(0, header), payload]);
  whole[1] = (whole[1] ?? 0) & 0x7f;
  if (!final) whole[0] = (whole[0] ?? 0) & 0x7f;
  return whole;
}

const payload = fc.oneof(
  fc.uint8Array({ maxLength: 20 }),
  fc.integer({ min: 120, max: 130 }).map((length) => new Uint8Array(length).fill(7)),
  fc.integer({ min: 65_530, max: 65_540 }).map((length) => new Uint8Array(length).fill(9)),
);

test('messages come whole however their bytes and fragments are cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ payload, fragments: fc.integer({ min: 1, max: 4 }), ping: fc.boolean() }), { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 10 }),
      (messages, sizes) => {
        const bytes = Buffer.concat(
          messages.flatMap((message) => {
            const size = Math.max(1, Math.ceil(message.payload.length / message.fragments));
            const parts: Uint8Array[] = [];
            let at = 0;
            do {
              const last = at + size >= message.payload.length;
              parts.push(
                served(at === 0 ? OPCODE.binary : OPCODE.continuation, message.payload.subarray(at, at + size), last),
              );
              if (message.ping) parts.push(served(OPCODE.ping, Uint8Array.of(1)));
              at += size;
            } while (at < message.payload.length);
            return parts;
          }),
        );
        const reader = new FrameReader();
        const found: Uint8Array[] = [];
        for (let at = 0, index = 0; at < bytes.length; index += 1) {
          const size = sizes[index % sizes.length] ?? 1;
          for (const each of reader.push(bytes.subarray(at, at + size)))
            if (each.opcode === OPCODE.binary) found.push(each.payload);
          at += size;
        }
        expect(found.map((each) => Buffer.from(each).toString('hex'))).toEqual(
          messages.map((message) => Buffer.from(message.payload).toString('hex')),
        );
      },
    ),
    { numRuns: 60 },
  );
});

test('a client’s frame can be read with its mask', () => {
  const mask = Uint8Array.of(1, 2, 3, 4);
  const bytes = frame(OPCODE.binary, Uint8Array.of(9, 9, 9, 9, 9), mask);
  expect([...bytes]).toEqual([0x82, 0x85, 1, 2, 3, 4, 8, 11, 10, 13, 8]);
});

test.each([
  ['masked', frame(OPCODE.binary, Uint8Array.of(1), new Uint8Array(4))],
  ['of an extension', Uint8Array.of(0xc2, 0)],
  ['too large', Uint8Array.of(0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0)],
  ['a fragment of nothing', served(OPCODE.continuation, Uint8Array.of(1))],
  ['a cut control frame', served(OPCODE.ping, Uint8Array.of(1), false)],
  ['a long control frame', served(OPCODE.ping, new Uint8Array(126))],
])('a frame that is %s is refused', (_what, bytes) => {
  expect(() => new FrameReader().push(bytes)).toThrow(TypeError);
});

test('a message within a message is refused', () => {
  const reader = new FrameReader();
  reader.push(served(OPCODE.binary, Uint8Array.of(1), false));
  expect(() => reader.push(served(OPCODE.binary, Uint8Array.of(1)))).toThrow(TypeError);
});
