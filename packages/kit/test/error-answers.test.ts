import { BoxkiteError, type ErrorCode } from '@boxkite/protocol';
import { describe, expect, test, vi } from 'vitest';
import { errorAnswer } from '../src/http/error-answers.ts';
import { createLogger, die } from '../src/index.ts';

describe('an answer is logged', () => {
  const reported = (error: unknown): number => {
    const report = vi.fn();
    errorAnswer(error, report);
    return report.mock.calls.length;
  };

  test('where it is a fault of ours', () => {
    expect(reported(new BoxkiteError('internal', 'broken'))).toBe(1);
    expect(reported(new Error('unknown'))).toBe(1);
  });

  test('never where a client has left', () => {
    const left = Object.assign(new Error('aborted'), { code: 'ECONNRESET' });
    expect([reported(left), errorAnswer(left, vi.fn()).body.error.code]).toEqual([0, 'aborted']);
    expect(reported(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }))).toBe(1);
  });

  // Anybody who reaches the port would else write kilobytes of log by each request.
  test.each<ErrorCode>(['not_configured', 'unauthorized', 'not_found', 'isolation_unavailable'])(
    'never where it is %s',
    (code) => expect(reported(new BoxkiteError(code, 'refused'))).toBe(0),
  );
});

describe('the last line of a process', () => {
  const lastLine = (error: unknown): unknown => {
    const lines: string[] = [];
    const exit = vi.spyOn(process, 'exit').mockImplementation((status) => {
      throw new Error(`exit ${status}`);
    });
    const logger = createLogger({ write: (line) => void lines.push(line) }, (text) => text);
    try {
      expect(() => die(error, logger)).toThrow(/^exit/);
      return { status: exit.mock.calls[0]?.[0], line: JSON.parse(lines.join('')) as unknown, text: lines.join('') };
    } finally {
      exit.mockRestore();
    }
  };

  test('has no stack where it can’t be what it was asked to be', () => {
    expect(lastLine(new BoxkiteError('isolation_unavailable', 'no memory limit here'))).toMatchObject({
      status: 78,
      line: { level: 60, msg: 'no memory limit here', error: { code: 'isolation_unavailable' } },
      text: expect.not.stringContaining('stack') as unknown,
    });
  });

  test('has the stack of a fault', () => {
    expect(lastLine(new TypeError('a slip'))).toMatchObject({
      status: 1,
      line: { level: 60, msg: 'a slip', err: { stack: expect.stringContaining('error-answers.test.ts') as unknown } },
    });
  });
});
