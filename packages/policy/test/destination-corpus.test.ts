import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DestinationAllowlist, judgeDestination } from '../src/index.ts';

interface Case {
  readonly id: string;
  readonly class: string;
  readonly why: string;
  readonly input: {
    readonly allow: readonly string[];
    readonly host: string;
    readonly port: number;
    readonly resolved: readonly string[];
  };
  readonly expect: 'allow' | 'deny';
}

const cases = readFileSync(new URL('./corpus/destinations.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

describe('destination corpus', () => {
  it('has all of its cases', () => {
    expect(cases).toHaveLength(272);
  });

  it.each(cases)('$id ($class): $why', (entry) => {
    const { verdict, reason } = judgeDestination(entry.input);
    expect(verdict, reason).toBe(entry.expect);
    expect(reason).not.toBe('');
    const allow = new DestinationAllowlist(entry.input.allow);
    expect(judgeDestination({ ...entry.input, allow })).toEqual({ verdict, reason });
  });
});

it.each([null, undefined, {}, 'example.com', 5])(
  'a list that is none allows nothing and throws nothing: %j',
  (allow) => {
    const request = { allow, host: 'example.com', port: 443, resolved: ['93.184.216.34'] };
    // As of a caller in JavaScript, whom no type holds back.
    expect(Reflect.apply(judgeDestination, undefined, [request])).toMatchObject({ verdict: 'deny' });
  },
);
