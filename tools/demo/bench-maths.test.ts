/** The bench's own arithmetic: a bench that can't call a promise broken promises nothing. */
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { readBenchDocument } from '../../tests/performance/bench-document.ts';
import { amount, compare, judge, type Metric } from '../../tests/performance/comparison.ts';
import { BLOCK_BYTES, buildBlock, PatternCheck } from '../../tests/performance/pattern.ts';
import { callByCall, sandwich } from '../../tests/performance/rounds.ts';
import { specification } from '../../tests/performance/specification.ts';

const TIME: Metric = { name: 'p50', unit: 'ms', better: 'lower', promise: 1, stretch: 0.7 };
const RATE: Metric = { name: 'rate', unit: 'MB/s', better: 'higher', promise: 0.6 };

test.each([
  [TIME, 0.7, 0, 'stretch'],
  [TIME, 0.9, 0, 'kept'],
  [TIME, 1.05, 0.1, 'within noise'],
  [TIME, 1.2, 0.1, 'broken'],
  [RATE, 2, 0, 'kept'],
  [RATE, 0.55, 0.1, 'within noise'],
  [RATE, 0.5, 0.1, 'broken'],
] as const)('%o at %f with noise %f: %s', (metric, value, noise, verdict) => {
  expect(judge(metric, value, noise)).toBe(verdict);
});

test('a ratio is the median of the rounds, noise what the baseline differs from itself', () => {
  const rounds = [
    { subject: 1, baseline: [1, 1] },
    { subject: 4, baseline: [2, 2] },
    { subject: 30, baseline: [10, 10] },
  ] as const;
  expect(compare(TIME, rounds)).toMatchObject({
    value: 2,
    subject: 4,
    baseline: 2,
    noise: 0,
    range: [1, 3],
    verdict: 'broken',
  });
  const noisy = [{ subject: 1.5, baseline: [1, 1.5] }] as const;
  expect(compare(TIME, noisy).noise).toBeCloseTo(0.5);
});

test('an amount is the worst one', () => {
  expect(amount({ name: 'x', unit: 'MB', better: 'lower', promise: 20 }, [1, 25, 3])).toMatchObject({
    value: 25,
    verdict: 'broken',
  });
});

test('both sides are called as often, in both orders', async () => {
  const order: string[] = [];
  const note = (side: string) => async (): Promise<void> => {
    order.push(side);
  };
  const samples = await callByCall(1, 4, note('s'), note('b'));
  expect(order.slice(-8).join('')).toBe('sbsbbsbs');
  expect(samples[0]?.subject).toHaveLength(4);
  expect(samples[0]?.baseline.map((half) => half.length)).toEqual([2, 2]);
  order.length = 0;
  await sandwich(
    2,
    async () => order.push('s'),
    async () => order.push('b'),
  );
  expect(order.join('')).toBe('bsbbsb');
});

test('the producer writes what the check expects, and the check sees one wrong, lost or doubled byte', () => {
  const texts = ['first-text', 'second-text'];
  const source = new URL('../../tests/performance/programs/producer.py', import.meta.url).pathname;
  const written = execFileSync('/usr/bin/python3', [source, '2', String(BLOCK_BYTES), ...texts], {
    maxBuffer: 4 * BLOCK_BYTES,
  });
  const arrives = (data: Buffer): void => {
    const check = new PatternCheck(buildBlock(texts));
    for (let from = 0; from < data.length; from += 65_536) check.push(data.subarray(from, from + 65_536));
    check.finish(2);
  };
  expect(() => arrives(written)).not.toThrow();
  const wrong = Buffer.from(written);
  wrong.writeUInt8(wrong.readUInt8(1_500_000) ^ 1, 1_500_000);
  expect(() => arrives(wrong)).toThrow(TypeError);
  expect(() => arrives(written.subarray(0, -1))).toThrow(TypeError);
  expect(() => arrives(Buffer.concat([written, written]))).toThrow(TypeError);
  expect(() =>
    arrives(Buffer.concat([written.subarray(0, 65_536), written.subarray(131_072), written.subarray(0, 65_536)])),
  ).toThrow(TypeError);
});

test('the page of promises takes them from the bench, marks a broken one, and refuses a try', () => {
  const row = {
    name: 'exec',
    source: 'tests/performance/rows/exec.ts',
    what: 'exec of true',
    baseline: 'spawn',
    state: 'measured',
    comparisons: [
      compare(TIME, [{ subject: 0.5, baseline: [1, 1] }]),
      compare(RATE, [{ subject: 0.1, baseline: [1, 1] }]),
    ],
  };
  const facts = {
    rounds: 5,
    scale: 1,
    cores: 2,
    kernel: '6',
    architecture: 'x64',
    node: 'v24',
    uid: 0,
    load_at_start: [0.1],
  };
  const text = (circumstances: object): string =>
    specification(readBenchDocument(JSON.stringify({ circumstances, rows: [row] })));
  expect(text(facts)).toContain(
    '| exec of true (`exec`), p50 | spawn | ≤ 1 × | ≤ 0.7 × | 0.50 × | 0 % | `tests/performance/rows/exec.ts` |',
  );
  expect(text(facts)).toContain('**0.10 ×: broken**');
  expect(() => text({ ...facts, rounds: 2 })).toThrow(TypeError);
});
