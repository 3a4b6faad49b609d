import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { canonicalPath, isWithinRoots } from '../src/session/paths.ts';

test.each([
  ['/', '/workspace'],
  ['.', '/workspace'],
  ['workspace', '/workspace'],
  ['workspace/a', '/workspace/a'],
  ['./././a/', '/workspace/a'],
  [' a\\b ', '/workspace/a/b'],
  ['workspacex', '/workspace/workspacex'],
  ['/uploads', '/mnt/user-data/uploads'],
  ['/outputs/x/../y', '/mnt/user-data/outputs/y'],
  ['/skills/s', '/mnt/skills/s'],
  ['/uploadsX', '/uploadsX'],
  ['/constructor', '/constructor'],
  ['/tmp//a', '/tmp/a'],
  ['../etc', '/etc'],
  ['/workspace/../../etc/passwd', '/etc/passwd'],
])('%s is %s', (path, canonical) => {
  expect(canonicalPath(path)).toBe(canonical);
});

test.each(['', '   ', 'a\0b'])('%j is refused', (path) => {
  expect(() => canonicalPath(path)).toThrow(BoxkiteError);
});

test('only the five roots and what is below them is within', () => {
  expect(['/workspace', '/workspace/a', '/tmp/x', '/mnt/skills', '/mnt/user-data/uploads/u'].every(isWithinRoots)).toBe(
    true,
  );
  expect(['/', '/workspaces', '/mnt', '/mnt/user-data', '/etc', '/tmpx'].some(isWithinRoots)).toBe(false);
});
