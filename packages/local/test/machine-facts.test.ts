import { userInfo } from 'node:os';
import { expect, test } from 'vitest';
import { machineFacts, userName } from '../src/machine-facts.ts';

test('names the user of this process', () => {
  const { uid, user } = machineFacts();
  expect(uid).toBe(process.getuid?.());
  expect(user).toBe(userName(uid, userInfo));
});

test('a user id without an entry is its own name', () => {
  const unknown = () => {
    throw new Error('A system error occurred: uv_os_get_passwd returned ENOENT (no such file or directory)');
  };
  expect(userName(4_294_967_290, unknown)).toBe('4294967290');
});
