import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { dictionary, list, v1 } from '../src/index.ts';

const MANY = 20_000;

/** Objects of all bodies that `/v1` takes. */
const bodies = Object.entries(v1).flatMap(([name, schema]) =>
  name.endsWith('Body') && schema instanceof z.ZodObject ? [[name, schema] as const] : [],
);

describe('a body of many small wrong values', () => {
  const values = Array.from({ length: MANY }, () => 1);
  const named = Object.fromEntries(values.map((value, index) => [`=${index}`, value]));

  it.each(bodies)('is refused by %s with few problems', (_name, schema) => {
    for (const field of Object.keys(schema.shape)) {
      for (const value of [values, named, { ...named, last: 'a' }]) {
        const { error } = schema.safeParse({ [field]: value });
        expect(error?.issues.length ?? 0, field).toBeLessThan(10);
      }
    }
  });

  it('has what is looked at', () => {
    expect(bodies.map(([name]) => name)).toEqual(expect.arrayContaining(['execBody', 'createSandboxBody']));
  });
});

describe('many values', () => {
  const words = Array.from({ length: MANY }, (_, index) => `w${index}`);

  it('are taken as they are', () => {
    expect(list(z.string()).parse(words)).toEqual(words);
    const named = Object.fromEntries(words.map((word) => [word, word]));
    expect(dictionary(z.string(), z.string()).parse(named)).toEqual(named);
  });

  it('are refused for the first wrong one, by its place', () => {
    const wrong: unknown[] = [...words];
    wrong[7000] = 1;
    wrong[8000] = 1;
    const { error } = list(z.string()).safeParse(wrong);
    expect(error?.issues.map(({ path }) => path)).toEqual([[7000]]);
    const named = Object.fromEntries(wrong.map((word, index) => [`n${index}`, word]));
    const refused = dictionary(z.string(), z.string()).safeParse(named);
    expect(refused.error?.issues.map(({ path }) => path)).toEqual([['n7000']]);
  });
});
