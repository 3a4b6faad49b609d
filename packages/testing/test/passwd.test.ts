import { passwdEntry } from '@boxkite/testing';
import { expect, it } from 'vitest';

it('finds a user’s entry, and none of an id that nobody has', () => {
  expect(passwdEntry(0)).toEqual({ name: 'root', home: '/root' });
  expect(passwdEntry(4_294_967_290)).toBeUndefined();
});
