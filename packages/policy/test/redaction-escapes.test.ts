/** Tokens and labels in text that another program has escaped. */
import { expect, it } from 'vitest';
import { createByteRedactor, createRedactor } from '../src/index.ts';

/** Made up, and written so that no file holds a whole one. */
const TOKEN = `gh${'p_'}${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`;
const VALUE = 'pa55word9x';

function hidden(text: string): string {
  const redactor = createRedactor({});
  const whole = redactor.push(text) + redactor.flush();
  const bytes = createByteRedactor({});
  const parts = Array.from(text, (character) => bytes.push(Buffer.from(character)));
  expect(Buffer.concat([...parts, bytes.flush()]).toString()).toBe(whole);
  return whole;
}

it.each(['\\u003d', '\\u0026', '\\x00', '\\u001b[31m', '\\x1b[0;1m', '\\033[m', '\\e[32m', '%3D', '\\n'])(
  'finds a token behind %s',
  (before) => expect(hidden(`a ${before}${TOKEN} b`)).toBe(`a ${before}[redacted:github-token] b`),
);

it.each([
  `https://h/?x\\u003d1\\u0026token\\u003d${VALUE}`,
  `next=%2Fa%3Fpassword%3D${VALUE}`,
  `password = """${VALUE}"""`,
  `secret: '''${VALUE}'''`,
  `password = """${VALUE}`,
])('finds the value of a label in %j', (text) => {
  expect(hidden(text)).not.toContain(VALUE);
  expect(hidden(text)).toContain('[redacted:');
});

it.each([`x${TOKEN}`, '\\u003dshort', 'token%20is', 'password = ""', 'password = """"""', 'token%3Dnone'])(
  'leaves %j',
  (text) => expect(hidden(text)).toBe(text),
);
