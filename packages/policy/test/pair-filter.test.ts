import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createByteRedactor } from '../src/index.ts';
import { FilteredText, PairFilter } from '../src/patterns/pair-filter.ts';

const TRIPLES = ['abc', 'x-y', '://', 'Key'];

function filter(): PairFilter {
  const made = new PairFilter();
  for (const text of TRIPLES) {
    const units = [...Buffer.from(text)];
    made.addTriple(units);
    made.addPair((units[0] ?? 0) | ((units[1] ?? 0) << 8));
    made.addPair((units[1] ?? 0) | ((units[2] ?? 0) << 8));
  }
  return made;
}

/** Indices at which one of both pairs of a three stands, of the parity of `from`. */
function wanted(bytes: Buffer, from: number): number[] {
  const found: number[] = [];
  for (const text of TRIPLES) {
    for (let at = bytes.indexOf(text, from); at >= 0; at = bytes.indexOf(text, at + 1)) {
      found.push((at - from) % 2 === 0 ? at : at + 1);
    }
  }
  return [...new Set(found)].sort((one, two) => one - two);
}

function found(made: PairFilter, bytes: Buffer, from: number): number[] {
  const text = new FilteredText(bytes);
  const last = bytes.length - 1;
  const indices: number[] = [];
  for (let at = made.next(text, from, last); at < last; at = made.next(text, at + 2, last)) indices.push(at);
  return indices;
}

const piece = fc.oneof(
  fc.constantFrom(...TRIPLES, 'ab', 'bc', '-', 'c', '/'),
  fc.integer({ min: 1, max: 700 }).map((length) => 'n'.repeat(length)),
  fc.constantFrom('n'.repeat(65_530), 'n'.repeat(65_533)),
);

describe('a filter of pairs', () => {
  it('skips none, wherever it begins and whatever is copied', () => {
    const made = filter();
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.integer({ min: 0, max: 9 }), (pieces, from) => {
        const bytes = Buffer.from(pieces.join(''));
        fc.pre(bytes.length > from);
        const indices = found(made, bytes, from);
        for (const index of wanted(bytes, from)) expect(indices).toContain(index);
      }),
      { numRuns: 400 },
    );
  });

  it('stops in long text for little but what it looks for', () => {
    const bytes = Buffer.from('an xyz of bcbcbc and cab, //, -y '.repeat(3000));
    expect(found(filter(), bytes, 0)).toEqual([]);
  });

  it('serves two texts in turn', () => {
    const made = filter();
    const [one, two] = ['abc', 'Key'].map(
      (text) => new FilteredText(Buffer.from('n'.repeat(1000) + text + 'n'.repeat(1000))),
    );
    if (one === undefined || two === undefined) throw new Error('there are two');
    expect([made.next(one, 0, 1999), made.next(two, 0, 1999), made.next(one, 2, 1999)]).toEqual([1000, 1000, 1000]);
  });
});

describe('a redactor of bytes', () => {
  it('reads what is in a piece of memory now, not what was there before', () => {
    const redactor = createByteRedactor({});
    const memory = Buffer.alloc(4096, 'words \n');
    redactor.push(memory);
    memory.write('password=abc12345 \n', 2100);
    expect(Buffer.from(redactor.push(memory)).toString()).toContain('password=[redacted:password] \n');
  });

  it('finds the same in lines of any length, wherever they are cut', () => {
    const token = `ghp_${'a1'.repeat(18)}`;
    const text = fc.tuple(
      fc.integer({ min: 16_300, max: 16_400 }),
      fc.constantFrom(` ${token} `, ' password=abc12345 ', ` SK${'0a'.repeat(16)} `, ' eyJ ', ' key ', '\n'),
      fc.integer({ min: 0, max: 33_000 }),
      fc.constantFrom(` ${token}`, ' api_key="abc12345"', `\n${token}\n`),
    );
    fc.assert(
      fc.property(
        text,
        fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1 }),
        ([one, first, two, second], cuts) => {
          const bytes = Buffer.from('.'.repeat(one) + first + '-'.repeat(two) + second);
          const whole = createByteRedactor({});
          const expected = Buffer.concat([whole.push(bytes), whole.flush()]).toString();
          const cut = createByteRedactor({});
          const parts: Uint8Array[] = [];
          for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
            const end = at + (cuts[turn % cuts.length] ?? 1);
            parts.push(Buffer.from(cut.push(bytes.subarray(at, end))));
            at = end;
          }
          expect(Buffer.concat([...parts, cut.flush()]).toString()).toBe(expected);
          expect(expected).not.toMatch(/abc12345|a1a1a1/);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('a token that is wrapped', () => {
  it('is held from its beginning whatever the line break is', () => {
    const first = `sk-ant-${'aB3_dE6-'.repeat(7)}A`;
    expect(first).toHaveLength(64);
    for (const lineBreak of ['\n', '\r\n']) {
      const redactor = createByteRedactor({});
      const given = Buffer.from(redactor.push(Buffer.from(first + lineBreak))).toString();
      const rest = Buffer.concat([redactor.push(Buffer.from('c'.repeat(40))), redactor.flush()]).toString();
      expect([given, rest]).toEqual(['', '[redacted:ai-key]']);
    }
  });
});
