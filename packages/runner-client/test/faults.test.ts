import { expect, test } from 'vitest';
import { errorOfFault } from '../src/faults.ts';

const refused = (step: string, detail: string) => errorOfFault({ code: 19, errno: 0, step, detail });

test('a program that can not be enforced is named, and what it lacks', () => {
  const script = refused('interpreter_not_listed', 'ldd\0/bin/bash');
  expect(script.code).toBe('invalid_request');
  expect(script.message).toBe('"ldd" is a script, and what runs it is not on the list: /bin/bash');
  expect(script.details).toEqual({
    field: 'programs',
    reason: 'interpreter_not_listed',
    program: 'ldd',
    interpreter: '/bin/bash',
  });
  expect(script.hint).toContain('enforce: "text"');
  expect(refused('library_missing', 'x\0libx.so.1').details).toMatchObject({ program: 'x', library: 'libx.so.1' });
  expect(refused('multi_call', 'busybox').details).toEqual({
    field: 'programs',
    reason: 'multi_call',
    program: 'busybox',
  });
});

test('a list as a whole, and a reason of a newer runner, are told too', () => {
  expect(refused('too_many', '').details).toEqual({ field: 'programs', reason: 'too_many' });
  expect(refused('of_tomorrow', 'x').message).toBe('"x" of_tomorrow');
});

test('a sandbox in use is a conflict', () => {
  const error = errorOfFault({ code: 20, errno: 0, step: 'exec', detail: '' });
  expect(error.code).toBe('conflict');
  expect(error.message).toBe('the sandbox is in use: exec');
});
