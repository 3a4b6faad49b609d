import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OutputCollector } from '../src/output-collector.ts';

const pieces = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 30 });

test('keeps the first and last bytes, whatever the pieces', () => {
  fc.assert(
    fc.property(pieces, fc.integer({ min: 0, max: 200 }), (parts, cap) => {
      const collector = new OutputCollector(cap);
      for (const part of parts) collector.push(part);
      const all = Buffer.concat(parts);
      const kept = Buffer.from(collector.finish());
      const head = Math.ceil(cap / 2);
      const expected =
        all.length <= cap ? all : Buffer.concat([all.subarray(0, head), all.subarray(all.length - (cap - head))]);
      expect(kept.equals(expected)).toBe(true);
      expect(collector.truncated).toBe(all.length > cap);
    }),
  );
});

test('a gap is a truncation', () => {
  const collector = new OutputCollector(10);
  collector.gap();
  expect(collector.truncated).toBe(true);
});
