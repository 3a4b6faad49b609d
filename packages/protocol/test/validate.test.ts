import { expect, test } from 'vitest';
import { z } from 'zod';
import { BoxkiteError, validate } from '../src/index.ts';
import { count, numeric } from '../src/schema-parts.ts';

const schema = z.object({
  command: z.string(),
  seconds: numeric,
  limits: z.object({ pids: z.number() }).optional(),
  env: z.record(z.string(), z.string()).optional(),
});

function problemsOf(value: unknown, against: z.ZodType = schema): unknown {
  try {
    validate(against, value);
  } catch (error) {
    if (error instanceof BoxkiteError) return [error.message, error.details['field'], error.details['problems']];
    throw error;
  }
  return null;
}

test('a field that is not there is missing, of whatever type it is to be', () => {
  const problems = ['command is missing', 'seconds is missing'];
  expect(problemsOf({ cmd: 'ls' })).toEqual(['command is missing', 'command', problems]);
  expect(problemsOf({ command: 'ls', seconds: 1, limits: {} })).toEqual([
    'limits.pids is missing',
    'limits.pids',
    ['limits.pids is missing'],
  ]);
});

test('one that is there and wrong is not, and nothing of it is shown', () => {
  expect(problemsOf({ command: null, seconds: 1 })).toEqual([
    expect.stringMatching(/^command: .*expected string/),
    'command',
    [expect.any(String)],
  ]);
  expect(problemsOf({ command: 'ls', seconds: 'soon' })).toEqual([
    'seconds: must be a number',
    'seconds',
    ['seconds: must be a number'],
  ]);
  expect(problemsOf(undefined)).toEqual([expect.stringMatching(/^request: /), 'request', [expect.any(String)]]);
  expect(problemsOf({ command: 'ls', seconds: 1, env: { KEY: 1 } })).toEqual([
    expect.not.stringContaining('KEY'),
    'env',
    [expect.any(String)],
  ]);
});

test('a bound is named as people write one', () => {
  const sizes = z.object({ pids: count(100, 'Count'), words: z.array(z.string().max(3)).min(1) });
  expect(problemsOf({ pids: 0, words: ['a'] }, sizes)).toContain('pids: must be at least 1');
  expect(problemsOf({ pids: '101', words: ['a'] }, sizes)).toContain('pids: must be at most 100');
  expect(problemsOf({ pids: 1, words: [] }, sizes)).toContain('words: must have at least 1 item');
  expect(problemsOf({ pids: 1, words: ['four'] }, sizes)).toContain('words.0: must have at most 3 characters');
});
