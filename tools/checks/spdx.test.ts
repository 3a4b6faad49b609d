import { expect, test } from 'vitest';
import { isAccepted } from './spdx.ts';

const accepted = new Set(['MIT', 'Apache-2.0', 'Apache-2.0 WITH LLVM-exception', 'Unicode-3.0']);

test.each([
  ['MIT', true],
  ['GPL-3.0-only', false],
  ['MIT OR GPL-3.0-only', true],
  ['MIT AND GPL-3.0-only', false],
  ['MIT/Apache-2.0', true],
  ['(MIT OR GPL-2.0-only) AND Unicode-3.0', true],
  ['MIT OR (GPL-2.0-only AND Apache-2.0)', true],
  ['GPL-2.0-only OR (GPL-2.0-only AND Apache-2.0)', false],
  ['Apache-2.0 WITH LLVM-exception', true],
  ['MIT WITH LLVM-exception', false],
  ['', false],
  ['MIT OR', false],
  ['(MIT', false],
  ['MIT MIT', false],
])('%s is accepted: %s', (expression, expected) => {
  expect(isAccepted(expression, accepted)).toBe(expected);
});
