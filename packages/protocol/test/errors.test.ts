import { describe, expect, it } from 'vitest';
import {
  BoxkiteError,
  BoxkiteFailure,
  BoxkiteWireError,
  type ErrorCode,
  errorRegistry,
  isErrorCode,
} from '../src/index.ts';

const entries = Object.entries(errorRegistry);

describe('the error registry', () => {
  it.each(entries)('%s has a status, and a hint that says what to do', (code, { status, hint }) => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(status).toBeGreaterThanOrEqual(400);
    // The machine's or the operator's to mend: nothing that a user's command or file does leads to one of these.
    const operators = ['isolation_unavailable', 'not_configured', 'state_unavailable'];
    expect([502, 503, 504].includes(status) && !operators.includes(code)).toBe(false);
    expect(hint).toMatch(/^[A-Z`].*\.$/);
    expect(hint.length).toBeGreaterThan(20);
  });

  it('knows its codes and no others', () => {
    for (const [code] of entries) expect(isErrorCode(code)).toBe(true);
    for (const code of ['', 'nope', 'toString', '__proto__']) expect(isErrorCode(code)).toBe(false);
  });
});

describe('BoxkiteError', () => {
  it('is serialized in the one shape of the wire, without its cause', () => {
    const error = new BoxkiteError('capacity', 'too many', { details: { limit: 'execs' }, cause: new Error('secret') });
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      error: {
        code: 'capacity',
        message: 'too many',
        hint: errorRegistry.capacity.hint,
        retryable: true,
        details: { limit: 'execs' },
      },
    });
    expect(error.cause).toBeInstanceOf(Error);
    expect(JSON.stringify(error)).not.toContain('secret');
  });

  it('takes the hint of who knows better, and no cause where there is none', () => {
    const error = new BoxkiteError('internal', 'broken', { hint: 'Do this instead of that.' });
    expect(error.hint).toBe('Do this instead of that.');
    expect('cause' in error).toBe(false);
    expect(error.details).toEqual({});
  });

  it('differs from what a server answered, under one base', () => {
    const local = new BoxkiteError('not_found', 'gone');
    const wire = new BoxkiteWireError(418, {
      error: { code: 'newer_code', message: 'm', hint: 'h', retryable: true, details: { a: 1 } },
    });
    expect(local).toBeInstanceOf(BoxkiteFailure);
    expect(wire).toBeInstanceOf(BoxkiteFailure);
    expect(wire).not.toBeInstanceOf(BoxkiteError);
    expect([wire.name, wire.code, wire.status, wire.retryable]).toEqual(['BoxkiteWireError', 'newer_code', 418, true]);
    expect(wire.toJSON()).toEqual({
      error: { code: 'newer_code', message: 'm', hint: 'h', retryable: true, details: { a: 1 } },
    });
  });

  it('has every code by type', () => {
    const codes: readonly ErrorCode[] = [
      'invalid_request',
      'isolation_unavailable',
      'runner_lost',
      'aborted',
      'no_space',
    ];
    for (const code of codes) expect(new BoxkiteError(code, 'x').code).toBe(code);
  });
});
