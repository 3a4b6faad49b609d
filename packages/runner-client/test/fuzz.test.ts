import { Buffer } from 'node:buffer';
import { BoxkiteError } from '@boxkite/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as answers from '../src/answers.ts';
import { EffectiveReader } from '../src/effective.ts';
import { FrameError, FrameReader, FrameType } from '../src/frames.ts';
import { FakeRunner } from './support/fake-runner.ts';
import { rawFrame } from './support/layouts.ts';
import { readVectors } from './support/vectors.ts';

const fromRunner = readVectors().filter(({ type }) => type >= 0x80);
const decoders: Readonly<Record<number, (payload: Buffer) => unknown>> = {
  [FrameType.opened]: answers.decodeOpened,
  [FrameType.started]: (payload) => answers.decodeStarted(payload, new EffectiveReader()),
  [FrameType.attached]: answers.decodeAttached,
  [FrameType.listing]: answers.decodeListing,
  [FrameType.probed]: answers.decodeProbed,
  [FrameType.gap]: answers.decodeGap,
  [FrameType.ended]: answers.decodeEnded,
  [FrameType.error]: answers.decodeError,
};

/** A true frame with some bytes changed, cut or added. */
const mutated = fc
  .tuple(
    fc.constantFrom(...fromRunner),
    fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }),
    fc.option(fc.nat(), { freq: 4 }),
    fc.uint8Array({ maxLength: 8 }),
  )
  .map(([vector, changes, cut, tail]) => {
    const frame = Buffer.concat([rawFrame(vector.type, vector.request, vector.payload), tail]);
    for (const [at, byte] of changes) frame[at % frame.length] = byte;
    return cut === null ? frame : frame.subarray(0, cut % (frame.length + 1));
  });

describe('frames of a mad runner', () => {
  it('decode or throw FrameError, 20,000 of them, and nothing else', () => {
    let frames = 0;
    let refused = 0;
    fc.assert(
      fc.property(mutated, (bytes) => {
        const reader = new FrameReader({
          frame: (type, _request, payload) => decoders[type]?.(payload),
          output: (_exec, _stream, _offset, data) => data.length,
        });
        frames += 1;
        try {
          reader.push(bytes);
        } catch (error) {
          refused += 1;
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
      { numRuns: 20_000 },
    );
    expect(frames).toBe(20_000);
    expect(refused).toBeGreaterThan(1_000);
  });

  it('settle every call of a client: with runner_lost, or with an answer that was none of theirs to begin with', async () => {
    let bytes = Buffer.alloc(0);
    await using runner = await FakeRunner.start((peer) => {
      peer.socket.end(bytes);
    });
    await fc.assert(
      fc.asyncProperty(fc.array(mutated, { minLength: 1, maxLength: 5 }), async (frames) => {
        bytes = Buffer.concat(frames);
        const client = await runner.client();
        const execution = client.exec(1n, { argv: ['true'] }).then(async (handle) => {
          for await (const _event of handle) await Promise.resolve();
        });
        const outcomes = await Promise.allSettled([execution, client.probe()]);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(BoxkiteError);
        }
        await client.lost;
      }),
      { numRuns: 300 },
    );
  });
});
