import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameError, FrameReader, MAX_OUTPUT_BYTES, MAX_PAYLOAD_BYTES } from '../src/frames.ts';
import { outputFrame, rawFrame } from './support/layouts.ts';

interface Seen {
  readonly frames: { type: number; request: number; payload: string }[];
  readonly output: Map<string, Buffer[]>;
}

function reading(): { seen: Seen; reader: FrameReader } {
  const seen: Seen = { frames: [], output: new Map() };
  const reader = new FrameReader({
    frame: (type, request, payload) => {
      seen.frames.push({ type, request, payload: payload.toString('hex') });
    },
    output: (exec, stream, offset, data) => {
      const key = `${exec}/${stream}`;
      const parts = seen.output.get(key) ?? [];
      expect(offset).toBe(Buffer.concat(parts).length);
      parts.push(Buffer.from(data));
      seen.output.set(key, parts);
    },
  });
  return { seen, reader };
}

/** Pushes `bytes` cut at the given places. */
function pushCut(reader: FrameReader, bytes: Buffer, cuts: readonly number[]): void {
  const borders = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  for (let index = 1; index < borders.length; index += 1)
    reader.push(bytes.subarray(borders[index - 1], borders[index]));
}

const item = fc.oneof(
  fc.record({
    kind: fc.constant('output' as const),
    exec: fc.bigInt(0n, 2n),
    stream: fc.constantFrom(1 as const, 2 as const),
    data: fc.uint8Array({ maxLength: 400 }),
  }),
  fc.record({
    kind: fc.constant('frame' as const),
    type: fc.integer({ min: 0, max: 255 }).filter((type) => type !== 0xc1),
    request: fc.integer({ min: 0, max: 0xffff_ffff }),
    payload: fc.uint8Array({ maxLength: 100 }),
  }),
);

describe('FrameReader', () => {
  it('gives the same frames and bytes wherever the chunks are cut', () => {
    fc.assert(
      fc.property(fc.array(item, { maxLength: 30 }), fc.array(fc.nat(), { maxLength: 40 }), (items, cuts) => {
        const { seen, reader } = reading();
        const expected = new Map<string, Buffer[]>();
        const frames: unknown[] = [];
        const wire = items.map((each) => {
          if (each.kind === 'frame') {
            frames.push({ type: each.type, request: each.request, payload: Buffer.from(each.payload).toString('hex') });
            return rawFrame(each.type, each.request, Buffer.from(each.payload));
          }
          const key = `${each.exec}/${each.stream}`;
          const parts = expected.get(key) ?? [];
          const frame = outputFrame(each.exec, each.stream, Buffer.concat(parts).length, each.data);
          if (each.data.length > 0) expected.set(key, [...parts, Buffer.from(each.data)]);
          return frame;
        });
        pushCut(reader, Buffer.concat(wire), cuts);
        expect(reader.atBorder).toBe(true);
        expect(seen.frames).toEqual(frames);
        expect([...seen.output.keys()].sort()).toEqual([...expected.keys()].sort());
        for (const [key, parts] of expected)
          expect(Buffer.concat(seen.output.get(key) ?? []).equals(Buffer.concat(parts))).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('hands output on without a copy', () => {
    const chunk = outputFrame(1n, 1, 0, Buffer.from('hello'));
    const views: Buffer[] = [];
    new FrameReader({
      frame: () => expect.unreachable(),
      output: (_exec, _stream, _offset, data) => views.push(data),
    }).push(chunk);
    expect(views.map((view) => view.buffer === chunk.buffer)).toEqual([true]);
  });

  const broken: readonly (readonly [string, Buffer])[] = [
    ['another version', Buffer.from([0, 0, 0, 0, 2, 0x80, 0, 0, 1, 0, 0, 0])],
    ['reserved bits', Buffer.from([0, 0, 0, 0, 1, 0x80, 1, 0, 1, 0, 0, 0])],
    ['a payload beyond 4 MiB', Buffer.concat([u32(MAX_PAYLOAD_BYTES + 1), Buffer.from([1, 0x80, 0, 0, 1, 0, 0, 0])])],
    ['output with a request', rawFrame(0xc1, 1, outputFrame(1n, 1, 0, Buffer.from('x')).subarray(12))],
    ['output that is too short', rawFrame(0xc1, 0, Buffer.alloc(23))],
    ['output that is too long', outputFrame(1n, 1, 0, Buffer.alloc(MAX_OUTPUT_BYTES + 1))],
    ['output of stream 3', rawFrame(0xc1, 0, Buffer.from([...Buffer.alloc(8), 3, ...Buffer.alloc(15)]))],
    [
      'output with set padding',
      rawFrame(0xc1, 0, Buffer.from([...Buffer.alloc(8), 1, 0, 0, 0, 0, 0, 0, 1, ...Buffer.alloc(8)])),
    ],
    [
      'an offset beyond 2^53',
      rawFrame(0xc1, 0, Buffer.from([...Buffer.alloc(8), 1, ...Buffer.alloc(7), ...Buffer.alloc(8, 255), 0])),
    ],
  ];

  it.each(broken)('refuses %s', (_name, bytes) => {
    expect(() => reading().reader.push(bytes)).toThrow(FrameError);
    const cut = reading().reader;
    expect(() =>
      pushCut(
        cut,
        bytes,
        Array.from({ length: Math.min(bytes.length, 64) }, (_, index) => index),
      ),
    ).toThrow(FrameError);
  });
});

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
