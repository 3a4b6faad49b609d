import { arch } from 'node:os';
import { describe, expect, test } from 'vitest';
import { readCargoOutput } from './cargo-output.ts';
import { holds, skipFaults, skipList } from './skips.ts';
import { readVitestReport } from './vitest-report.ts';

describe('output of cargo', () => {
  const ok =
    'test a ... ok\ntest b ... ignored, needs a disk\ntest result: ok. 1 passed; 0 failed; 1 ignored; 0 measured\n';

  test('is summed over test binaries', () => {
    const outcome = readCargoOutput('root', ok + ok, 0);
    expect(outcome.passed).toBe(2);
    expect(outcome.failed).toEqual([]);
    expect(outcome.skipped).toHaveLength(2);
  });

  test('names what failed', () => {
    const text = `${ok}test c::d ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n`;
    expect(readCargoOutput('root', text, 101).failed).toEqual([{ lane: 'root', test: 'cargo: c::d' }]);
  });

  test.each([
    ['a compile error', 'error: could not compile', 101],
    ['a test binary that died after others passed', ok, 101],
    ['nothing to test', '', 0],
    ['a torn line', 'tesFAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured', 101],
  ])('%s is a failure', (_what, text, status) => {
    expect(readCargoOutput('root', text, status).failed).toHaveLength(1);
  });
});

describe('report of vitest', () => {
  const run = { lane: 'root', root: '/r', status: 0 };
  const file = (status: string, ...tests: string[]) => ({
    name: '/r/tests/a.test.ts',
    status,
    assertionResults: tests.map((found) => ({ fullName: found, status: found })),
  });
  const text = (...files: unknown[]) => JSON.stringify({ testResults: files });

  test('is summed', () => {
    const outcome = readVitestReport(
      { ...run, status: 1 },
      text(file('failed', 'passed', 'failed', 'skipped', 'todo')),
    );
    expect(outcome.passed).toBe(1);
    expect(outcome.failed).toMatchObject([{ lane: 'root', test: 'tests/a.test.ts: failed' }]);
    expect(outcome.skipped).toHaveLength(2);
  });

  test('says why a test failed, without the stack', () => {
    const failureMessages = [
      'Error: Property failed after 7 tests\n{ seed: 5 }\n\n    at a (/r/a.ts:1:2)\nCaused by: it',
    ];
    const found = {
      name: '/r/a.test.ts',
      status: 'failed',
      assertionResults: [{ fullName: 'a', status: 'failed', failureMessages }],
    };
    const outcome = readVitestReport({ ...run, status: 1 }, text(found));
    expect(outcome.failed[0]?.why).toBe('Error: Property failed after 7 tests\n{ seed: 5 }\nCaused by: it');
  });

  test.each([
    ['no report', undefined, 1],
    ['a file that does not load', text(file('failed')), 1],
    ['an error outside of tests', text(file('passed', 'passed')), 1],
    ['no test at all', text(), 0],
  ])('%s is a failure', (_what, report, status) => {
    expect(readVitestReport({ ...run, status }, report).failed).toHaveLength(1);
  });
});

describe('skips', () => {
  const named = { lane: 'root', test: 'a.test.ts: b' };
  const entry = { ...named, reason: 'the kernel has no such device here', hostFact: 'absent:/nowhere' };
  const lanes = new Set(['root']);

  test.each([
    ['listed and forced by the machine', [named], [entry], false, 0],
    ['not listed', [named], [], false, 1],
    ['listed for another lane', [named], [{ ...entry, lane: 'user-range' }], false, 1],
    ['listed, but the machine does not force it', [named], [{ ...entry, hostFact: 'present:/nowhere' }], false, 1],
    ['listed, in CI', [named], [entry], true, 1],
    ['listed and not skipped', [], [entry], false, 1],
  ])('%s', (_what, skipped, list, strict, faults) => {
    expect(skipFaults(skipped, list, lanes, strict)).toHaveLength(faults);
  });

  test('need a reason and a known kind of fact', () => {
    expect(skipList.safeParse([entry]).success).toBe(true);
    expect(skipList.safeParse([{ ...entry, reason: 'flaky' }]).success).toBe(false);
    expect(skipList.safeParse([{ ...entry, hostFact: 'mood:bad' }]).success).toBe(false);
  });

  test.each([
    ['absent:/proc/self', false],
    ['present:/proc/self', true],
    [`arch:${arch()}`, true],
    ['kernel-below:2.6', false],
    ['kernel-below:999.0', true],
  ])('%s holds: %s', (fact, expected) => {
    expect(holds(fact)).toBe(expected);
  });
});
