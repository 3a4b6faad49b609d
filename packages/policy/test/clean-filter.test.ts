import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { CleanFilter } from '../src/clean-filter.ts';
import { buildGramTable, type GramTable } from '../src/gram-table.ts';
import { createByteRedactor, createRedactor, KnownValues } from '../src/index.ts';
import { knownForms, type TextUnits } from '../src/known-forms.ts';
import type { KnownPattern } from '../src/known-pattern.ts';
import { ScriptFilter } from '../src/script-filter.ts';
import { narrowed, UnitBuffer } from '../src/unit-buffer.ts';
import { WasmFilter } from '../src/wasm-filter.ts';

afterEach(() => vi.unstubAllGlobals());

function patternsOf(values: readonly string[], units: TextUnits): KnownPattern[] {
  return values.flatMap((value, index) =>
    knownForms(value, units).map((form) => ({ ...form, value: index, keepsBreaks: false })),
  );
}

function tableOf(patterns: readonly KnownPattern[]): GramTable {
  const table = buildGramTable(patterns);
  if (table === undefined) throw new TypeError('a form is too short');
  return table;
}

function wasmFilter(table: GramTable): WasmFilter {
  const filter = WasmFilter.create(table);
  if (filter === undefined) throw new TypeError('there is no WebAssembly here');
  return filter;
}

function bufferOf(text: string): UnitBuffer {
  const buffer = new UnitBuffer(true);
  const at = buffer.reserve(0, text.length);
  for (let index = 0; index < text.length; index += 1) {
    buffer.units[at + index] = text.charCodeAt(index);
    buffer.narrow[at + index] = narrowed(text.charCodeAt(index));
  }
  return buffer;
}

interface Stop {
  at: number;
  barrier: number;
}

function stopOf(filter: CleanFilter, buffer: UnitBuffer, from: number): Stop {
  filter.begin();
  const at = filter.skip(buffer, from);
  return { at, barrier: filter.barrier };
}

const BREAKS = ['\n', '\r\n', '\n    ', ' \r\n\t', '\n\n\n'];
const word = (characters: string, minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...characters), minLength, maxLength });
const RUNS = Number(process.env['REDACTOR_RUNS'] ?? '400');

/** Every text that a form may be broken into at one place, and at two near its beginning. */
function brokenTexts(form: string): string[] {
  const texts = [form];
  for (let one = 1; one < form.length; one += 1) {
    for (const ending of BREAKS) texts.push(form.slice(0, one) + ending + form.slice(one));
    for (let two = one + 1; two < Math.min(form.length, 20); two += 1) {
      texts.push(`${form.slice(0, one)}\n ${form.slice(one, two)}\r\n${form.slice(two)}`);
    }
  }
  texts.push([...form].join('\n'), form.replace(/\s*\n\s*/g, ' '), form.replace(/\s*\n\s*/g, ''));
  return texts;
}

/** Positions from which the form may be sought: far before it, near it, at it. */
function startsBefore(start: number): number[] {
  return [...new Set([0, start >> 1, start - 17, start - 16, start - 5, start - 2, start - 1, start])].filter(
    (from) => from >= 0,
  );
}

describe('filter', { timeout: 60_000 + RUNS * 20 }, () => {
  const VALUES = [
    'q7Zk9+',
    'pässwörd/with "quotes" €9',
    'two\nlines of it\r\nand\none',
    '0123456789abcdef0123456789abcdef',
  ];

  for (const units of ['utf8', 'utf16'] as const) {
    for (const value of VALUES) {
      it(`passes over no form of ${JSON.stringify(value)} in ${units}, broken or cut anywhere`, () => {
        const table = tableOf(patternsOf([value], units));
        const filters = [new ScriptFilter(table), wasmFilter(table)];
        for (const { low, high } of knownForms(value, units)) {
          for (const form of new Set([low, high])) {
            const lead = ['', '~', 'the line before it\n', 'x'.repeat(150), '\n  \n'];
            for (const [index, text] of brokenTexts(form).entries()) {
              const before = lead[index % lead.length] ?? '';
              const buffer = bufferOf(`${before}${text} and what follows it`);
              const ends = index % 7 === 0 ? Array.from(text, (_, at) => before.length + at + 1) : [buffer.length];
              for (const end of ends) {
                buffer.length = end;
                for (const filter of filters) {
                  for (const from of startsBefore(before.length)) {
                    if (stopOf(filter, buffer, from).at > before.length) {
                      expect.fail(
                        `${JSON.stringify(before + text)} from ${from} to ${end}, ${filter.constructor.name}`,
                      );
                    }
                  }
                }
              }
            }
          }
        }
      });
    }
  }

  it('stops at the same places in JavaScript and in WebAssembly', () => {
    const values = fc.uniqueArray(word('abAB01 \n+/%é€', 8, 40), { minLength: 1, maxLength: 4 });
    const noise = word('abAB01 \n\r\t+/%2f~é€\u0000ÿ', 0, 200);
    const piece = fc.oneof(noise, fc.tuple(fc.nat(50), fc.nat(40)));
    let compared = 0;
    fc.assert(
      fc.property(values, fc.array(piece, { maxLength: 12 }), fc.nat(40), (secrets, pieces, from) => {
        const patterns = patternsOf(secrets, 'utf16');
        const table = buildGramTable(patterns);
        if (table === undefined) return;
        const [script, wasm] = [new ScriptFilter(table), wasmFilter(table)];
        const text = pieces
          .map((part) =>
            typeof part === 'string' ? part : (patterns[part[0] % patterns.length]?.low ?? '').slice(0, part[1]),
          )
          .join('');
        const buffer = bufferOf(text);
        for (let at = from; at < text.length; at += 1) {
          expect(stopOf(wasm, buffer, at)).toEqual(stopOf(script, buffer, at));
          compared += 1;
        }
      }),
      { numRuns: RUNS },
    );
    expect(compared).toBeGreaterThan(RUNS * 10);
  });

  it('gets over clean text of any length, and further in one buffer than the memory it began with', () => {
    const table = tableOf(patternsOf(['q7Zk9+pW2x-and-more-of-it'], 'utf8'));
    const line = 'the build step compiled in seconds with warnings\n  and then tests passed {\n';
    const buffer = bufferOf(line.repeat(20_000));
    for (const filter of [new ScriptFilter(table), wasmFilter(table)]) {
      for (const from of [0, 1, 777]) expect(stopOf(filter, buffer, from).at).toBeGreaterThan(buffer.length - 17);
    }
  });

  it('is not built for a form that is shorter than what it reads', () => {
    expect(buildGramTable(patternsOf(['a\nb\nc\nd'], 'utf8'))).toBeUndefined();
  });
});

describe('redactor without WebAssembly', { timeout: 30_000 + RUNS * 20 }, () => {
  const values = fc.uniqueArray(word('ab A%/+1', 6, 30), { minLength: 1, maxLength: 3 });
  const texts = fc.array(fc.oneof(word('ab \n\r\tA%/2fF+1~', 0, 60), fc.tuple(fc.nat(60), fc.nat(60))), {
    maxLength: 20,
  });

  it('gives the same', () => {
    fc.assert(
      fc.property(values, texts, (secrets, pieces) => {
        const forms = patternsOf(secrets, 'utf8');
        if (forms.length === 0) return;
        const text = pieces
          .map((part) =>
            typeof part === 'string' ? part : (forms[part[0] % forms.length]?.high ?? '').slice(0, 6 + part[1]),
          )
          .join('');
        const fast = redactBoth(secrets, text);
        vi.stubGlobal('WebAssembly', undefined);
        const slow = redactBoth(secrets, text);
        vi.unstubAllGlobals();
        expect(slow).toEqual(fast);
      }),
      { numRuns: RUNS },
    );
  });

  it('works where a module may not be compiled', () => {
    const refuse = () => {
      throw new TypeError('refused by the content security policy');
    };
    vi.stubGlobal('WebAssembly', { Module: refuse, Instance: refuse });
    expect(WasmFilter.create(tableOf(patternsOf(['correct-horse'], 'utf8')))).toBeUndefined();
    expect(redactBoth(['correct-horse'], 'a correct-\nhorse!')).toEqual(['a [redacted:K0]!', 'a [redacted:K0]!']);
  });
});

function redactBoth(secrets: readonly string[], text: string): string[] {
  const known = new KnownValues(Object.fromEntries(secrets.map((secret, index) => [`K${index}`, secret])));
  const inText = createRedactor(known);
  const inBytes = createByteRedactor(known);
  const parts = [...inBytes.pushParts(Buffer.from(text)), inBytes.flush()];
  return [inText.push(text) + inText.flush(), Buffer.concat(parts).toString()];
}
