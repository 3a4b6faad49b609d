import { expect, test } from 'vitest';
import { createLogger } from '../src/index.ts';

const SECRET = 'a"b\\c-secret';

/** Hides the value as it is and as JSON writes it, and what a field of this name holds. */
function hide(text: string): string {
  return text
    .replaceAll(SECRET, '[hidden]')
    .replaceAll(JSON.stringify(SECRET).slice(1, -1), '[hidden]')
    .replaceAll(/"password":"[^"]*"/g, '"password":"[hidden]"');
}

test('what must not be shown is in no line, and each line is JSON', () => {
  const lines: string[] = [];
  const logger = createLogger({ write: (line) => void lines.push(line) }, hide);
  logger.info('nothing to hide');
  logger.info(`a value ${SECRET}`);
  logger.error({ err: new Error(`it is ${SECRET}`), list: [{ deep: SECRET }], password: 'any' }, 'failed');
  expect(lines).toHaveLength(3);
  expect(lines.join('')).not.toMatch(/c-secret|any/);
  const parsed = lines.map((line) => JSON.parse(line) as { msg: string; err?: { message: string }; list?: unknown });
  expect(parsed.map(({ msg }) => msg)).toEqual(['nothing to hide', 'a value [hidden]', 'failed']);
  expect(parsed[2]).toMatchObject({
    err: { message: 'it is [hidden]' },
    list: [{ deep: '[hidden]' }],
    password: '[hidden]',
  });
});
