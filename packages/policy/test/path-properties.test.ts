import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type PathOperation, resolveSandboxPath } from '../src/index.ts';

const part = fc.oneof(
  fc.constantFrom(
    '/',
    '//',
    '..',
    '.',
    './',
    '../',
    '\\',
    ' ',
    'workspace',
    '/workspace',
    'uploads',
    'skills',
    '/tmp',
    'mnt/user-data',
  ),
  fc.string({ unit: 'binary', maxLength: 4 }),
);
const path = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(''));
const operation = fc.constantFrom<PathOperation>('read', 'write');

it('a path that is accepted means itself', () => {
  fc.assert(
    fc.property(path, operation, (text, op) => {
      const answer = resolveSandboxPath(text, op);
      if ('ok' in answer) expect(resolveSandboxPath(answer.ok, op)).toEqual(answer);
      else expect(answer.reason.length).toBeGreaterThan(5);
    }),
    { numRuns: 5000 },
  );
});

it('a path that may be written may be read', () => {
  fc.assert(
    fc.property(path, (text) => {
      const answer = resolveSandboxPath(text, 'write');
      if ('ok' in answer) expect(resolveSandboxPath(text, 'read')).toEqual(answer);
    }),
  );
});

it('a name that ends in a blank is refused, since it would mean another one the second time', () => {
  expect(resolveSandboxPath('a /', 'read')).toMatchObject({ error: 'invalid' });
  expect(resolveSandboxPath('a /b', 'read')).toEqual({ ok: '/workspace/a /b' });
});

it('a path that is too long once it is written out is refused, since it would be the second time', () => {
  const name = 'x/'.repeat(2047);
  expect(resolveSandboxPath(name, 'read')).toMatchObject({ error: 'invalid' });
  const longest = `/tmp/${'x/'.repeat(2045)}`;
  expect(resolveSandboxPath(longest, 'read')).toEqual({ ok: longest.slice(0, -1) });
});
