import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { writePrivate } from '../../src/serve/private-file.ts';

const base = mkdtempSync(join(tmpdir(), 'boxkite-private-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

test('is for one reader, and never written over', () => {
  const path = join(base, 'own');
  const uid = process.geteuid?.() ?? 0;
  writePrivate(path, 'secret', uid);
  expect(readFileSync(path, 'utf8')).toBe('secret');
  expect(statSync(path).mode & 0o7777).toBe(0o400);
  expect(statSync(path).uid).toBe(uid);
  expect(() => writePrivate(path, 'other', uid)).toThrow('EEXIST');
});

if (process.geteuid?.() === 0)
  test('is given to the service by root', () => {
    const path = join(base, 'given');
    writePrivate(path, 'secret', 12_345);
    expect(statSync(path)).toMatchObject({ uid: 12_345, gid: 12_345 });
  });
