import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BoxkiteError,
  decodeAttachMessage,
  encodeAttachMessage,
  encodeOutputFrame,
  maxOutputFrameBytes,
  type OutputFrame,
  OutputFrameDecoder,
  outputFrameParts,
} from '../src/index.ts';
import { record } from './values.ts';

const offsets = fc.maxSafeNat();
const streams = fc.constantFrom('stdout' as const, 'stderr' as const);
const output = fc.record({
  type: fc.constant('output' as const),
  stream: streams,
  offset: fc.nat(2 ** 52),
  data: fc.uint8Array({ minLength: 1, maxLength: 200 }),
});
const gap = fc
  .record({ stream: streams, a: offsets, b: offsets })
  .map(({ stream, a, b }) => ({ type: 'gap' as const, stream, from: Math.min(a, b), to: Math.max(a, b) }));
const failure = new BoxkiteError('not_found', 'no such exec ☃', { details: { n: 1, list: ['a'], none: null } });
const frames: fc.Arbitrary<OutputFrame> = fc.oneof(
  output,
  gap,
  fc.constant({ type: 'heartbeat' as const }),
  fc.constant({ type: 'ended' as const, record }),
  fc.constant({ type: 'error' as const, error: failure.toJSON() }),
);

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** Output that follows its own stream without a hole, in one piece, so that sequences are compared whatever the chunks. */
function merged(list: readonly OutputFrame[]): OutputFrame[] {
  const result: OutputFrame[] = [];
  for (const frame of list) {
    const last = result.at(-1);
    if (
      frame.type === 'output' &&
      last?.type === 'output' &&
      last.stream === frame.stream &&
      last.offset + last.data.length === frame.offset
    ) {
      result[result.length - 1] = { ...last, data: joined([last.data, frame.data]) };
    } else result.push(frame.type === 'output' ? { ...frame, data: joined([frame.data]) } : frame);
  }
  return result;
}

function refused(decode: () => unknown, code = 'connection_lost'): void {
  try {
    decode();
  } catch (error) {
    expect(error).toBeInstanceOf(BoxkiteError);
    expect(error).toMatchObject({ code });
    return;
  }
  throw new Error('it was accepted');
}

describe('output frames', () => {
  it('have the documented layout', () => {
    const bytes = encodeOutputFrame({
      type: 'output',
      stream: 'stderr',
      offset: 2 ** 32 + 5,
      data: Uint8Array.of(9, 8),
    });
    expect([...bytes]).toEqual([2, 0, 0, 0, 1, 2, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 9, 8]);
    const end = encodeOutputFrame({ type: 'gap', stream: 'stdout', from: 1, to: 258 });
    expect([...end]).toEqual([8, 0, 0, 0, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    expect([...encodeOutputFrame({ type: 'heartbeat' })]).toEqual([0, 0, 0, 0, 4, ...new Uint8Array(11)]);
  });

  it('come back as they were, in whatever chunks', () => {
    fc.assert(
      fc.property(
        fc.array(frames, { maxLength: 12 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 90 })),
        (list, sizes) => {
          const bytes = joined(list.flatMap((frame) => outputFrameParts(frame)));
          const decoder = new OutputFrameDecoder();
          const back: OutputFrame[] = [];
          for (let at = 0; at < bytes.length; ) {
            const size = sizes.next().value as number;
            back.push(...decoder.push(bytes.subarray(at, at + size)));
            at += size;
          }
          decoder.end();
          expect(merged(back)).toEqual(merged(list));
        },
      ),
    );
  });

  it('give out data before their frame is whole', () => {
    const bytes = encodeOutputFrame({ type: 'output', stream: 'stdout', offset: 7, data: new Uint8Array(100).fill(1) });
    const decoder = new OutputFrameDecoder();
    expect(decoder.push(bytes.subarray(0, 20))).toMatchObject([{ offset: 7, data: { length: 4 } }]);
    expect(() => decoder.end()).toThrow(BoxkiteError);
    expect(decoder.push(bytes.subarray(20))).toMatchObject([{ offset: 11, data: { length: 96 } }]);
    decoder.end();
  });

  it.each([
    ['an unknown type', [0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['output of no stream', [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['an end of a stream', [1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['a heartbeat with a payload', [1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['reserved bytes', [0, 0, 0, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['an offset beyond 2^53', [1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
    ['a gap that ends before it begins', [8, 0, 0, 0, 2, 1, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]],
    ['a record that is no JSON', [1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 123]],
    ['a record that is none', [2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 123, 125]],
    ['a frame that is too large', [0, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
  ])('refuse %s, and everything after it', (_what, bytes) => {
    const decoder = new OutputFrameDecoder();
    refused(() => decoder.push(Uint8Array.from(bytes)));
    refused(() => decoder.push(encodeOutputFrame({ type: 'heartbeat' })));
  });

  it('are bounded and never crash the decoder, whatever comes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 8 }), (chunks) => {
        const decoder = new OutputFrameDecoder();
        for (const chunk of chunks) {
          try {
            for (const frame of decoder.push(chunk)) {
              if (frame.type === 'output') expect(frame.data.length).toBeLessThanOrEqual(maxOutputFrameBytes);
            }
          } catch (error) {
            expect(error).toMatchObject({ code: 'connection_lost' });
            return;
          }
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('with one byte changed give other frames or a refusal, never an exception of another kind', () => {
    const whole = joined([
      encodeOutputFrame({ type: 'ended', record }),
      encodeOutputFrame({ type: 'gap', stream: 'stdout', from: 1, to: 2 }),
      encodeOutputFrame({ type: 'error', error: failure.toJSON() }),
    ]);
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, value) => {
        const bytes = whole.slice();
        bytes[at] = value;
        try {
          new OutputFrameDecoder().push(bytes);
        } catch (error) {
          expect(error).toMatchObject({ code: 'connection_lost' });
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe('messages of attach', () => {
  it('come back as they were', () => {
    const terminal = fc.integer({ min: 1, max: 65_535 });
    const messages = fc.oneof(
      fc.record({ type: fc.constant('stdin' as const), data: fc.uint8Array() }),
      fc.constant({ type: 'close_stdin' as const }),
      fc.record({ type: fc.constant('resize' as const), columns: terminal, rows: terminal }),
      fc.record({ type: fc.constant('signal' as const), signal: fc.constantFrom('SIGINT', 'SIGRTMIN+3', '9') }),
      fc.record({ type: fc.constant('acknowledge' as const), stdout: offsets, stderr: offsets }),
      fc.constant({ type: 'kill' as const }),
    );
    fc.assert(
      fc.property(messages, (message) => {
        expect(decodeAttachMessage(encodeAttachMessage(message))).toEqual(message);
      }),
    );
  });

  it('that are none are refused by invalid_request', () => {
    refused(() => decodeAttachMessage(new Uint8Array()), 'invalid_request');
    refused(() => decodeAttachMessage(Uint8Array.of(3, 0, 0, 1, 0)), 'invalid_request');
    refused(() => decodeAttachMessage(Uint8Array.of(4, 47)), 'invalid_request');
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 24 }), (bytes) => {
        try {
          decodeAttachMessage(bytes);
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_request' });
        }
      }),
      { numRuns: 2000 },
    );
  });
});
