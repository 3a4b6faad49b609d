import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { asciiOnly } from '../one-byte.ts';

test.each([
  ['a string', "'gr\u00fc\u00dfe \u2192 \u{1f600}'", 'gr\u00fc\u00dfe \u2192 \u{1f600}'],
  ['a template', '`\u2013 \u{1f680}`', '\u2013 \u{1f680}'],
  ['a regular expression', '/^[\u00e4-\u00fc\u2028]$/.test("\u00f6")', true],
  ['one of whole characters', '/^[\u{1f600}-\u{1f64f}]$/u.test("\u{1f620}")', true],
  ['a key', '({ "\u00fc": 1 })["\u00fc"]', 1],
  ['a comment', '/* \u2026 */ 7 // \u00e9', 7],
])('%s means the same', (_what, code, value) => {
  const ascii = asciiOnly(code);
  expect(ascii).toMatch(/^[\x20-\x7e]+$/);
  expect(runInNewContext(ascii)).toBe(value);
});
