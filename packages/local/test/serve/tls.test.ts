import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeTlsPair } from '@boxkite/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listenerTls, readTls, tlsCopies } from '../../src/serve/tls.ts';

const base = mkdtempSync(join(tmpdir(), 'boxkite-tls-'));
const file = (name: string): string => join(base, name);

beforeAll(() => {
  makeTlsPair(file('one'));
  makeTlsPair(file('two'));
  writeFileSync(file('none'), 'no PEM');
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

test('a pair that belongs together is read', () => {
  const { key } = readTls({ certificate: file('one/tls.crt'), key: file('one/tls.key') });
  expect(key.toString()).toBe(readFileSync(file('one/tls.key'), 'utf8'));
});

test('a run has copies of it for its listeners, or none in clear text', () => {
  const run = file('run');
  mkdirSync(run);
  const pair = readTls({ certificate: file('one/tls.crt'), key: file('one/tls.key') });
  for (const [name, content] of Object.entries(tlsCopies(pair))) writeFileSync(join(run, name), content);
  expect(listenerTls({ tls: true, run })).toEqual({ cert: pair.certificate, key: pair.key });
  expect(listenerTls({ tls: false, run })).toBeUndefined();
});

test.each([
  ['one/tls.crt', 'two/tls.key', /do not belong together/],
  ['none', 'one/tls.key', /can't be used/],
  ['one/tls.crt', 'none', /can't be used/],
  ['missing', 'one/tls.key', /can't be read/],
])('%s with %s is refused', (certificate, key, message) => {
  expect(() => readTls({ certificate: file(certificate), key: file(key) })).toThrow(message);
});
