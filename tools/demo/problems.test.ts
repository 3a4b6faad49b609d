import { expect, test } from 'vitest';
import { parseProblems } from './problems.ts';
import { buildProgram, hasPassed } from './program.ts';

const GOOD = {
  task_id: 'Mine/1',
  prompt: 'def one():\n',
  canonical_solution: '    return 1\n',
  test: 'def check(candidate):\n    assert candidate() == 1\n',
  entry_point: 'one',
};

function lines(...values: unknown[]): string {
  return values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join('\n');
}

test('bad lines are named by number and reason, and the rest is kept', () => {
  const { problems, bad } = parseProblems(
    lines(
      GOOD,
      '{"task_id": ',
      '',
      [1],
      { ...GOOD, task_id: 'Mine/2', test: undefined },
      { ...GOOD, task_id: 'Mine/3', prompt: 4 },
      { ...GOOD, task_id: 'Mine/4', entry_point: 'one); import os; (' },
      { ...GOOD, task_id: 'Mine/5', prompt: 'a\0b' },
      GOOD,
      { ...GOOD, task_id: 'Mine/6', unknown: true },
    ),
  );
  expect(problems.map((problem) => problem.task_id)).toEqual(['Mine/1', 'Mine/6']);
  expect(bad.map(({ line }) => line)).toEqual([2, 4, 5, 6, 7, 8, 9]);
  expect(bad[0]?.reason).toMatch(/^not JSON: /);
  expect(bad.slice(1).map(({ reason }) => reason)).toEqual([
    'not a JSON object',
    '"test" is missing',
    '"prompt" must be a string',
    '"entry_point" is no Python name',
    '"prompt" holds a NUL character, which Python refuses',
    'task_id "Mine/1" was on line 1 already',
  ]);
});

test('a byte order mark and Windows line ends do no harm', () => {
  expect(parseProblems(`\uFEFF${JSON.stringify(GOOD)}\r\n`)).toEqual({ problems: [GOOD], bad: [] });
});

test('a program is prompt, solution, test and call, and passes only by its last line', () => {
  const program = buildProgram(GOOD, 'abc');
  const text = new TextDecoder().decode(program.source);
  expect(text).toContain(`${GOOD.prompt}${GOOD.canonical_solution}\n${GOOD.test}\n`);
  expect(text).toContain('\ncheck(one)\n');
  expect(hasPassed(program, 0, 'boxkite-started\n\nboxkite-passed-abc\n')).toBe(true);
  expect(hasPassed(program, 1, 'boxkite-passed-abc\n')).toBe(false);
  expect(hasPassed(program, 0, 'boxkite-started\n')).toBe(false);
  expect(hasPassed(program, null, 'boxkite-passed-abc\n')).toBe(false);
});
