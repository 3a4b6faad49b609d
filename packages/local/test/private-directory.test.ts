import { chmodSync, chownSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makePrivateDirectory } from '../src/private-directory.ts';

// Root always uses /run/boxkite, so that as root these tests speak for a user who owns what is there before.
const uid = process.geteuid?.() ?? 0;
const user = uid === 0 ? 4_000_000 : uid;
const somebodyElse = user + 1;
let base = '';

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-directory-'));
  own(base, 0o700);
});

function own(path: string, mode: number): void {
  chmodSync(path, mode);
  if (uid === 0) chownSync(path, user, user);
}

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

test('makes directories of mode 0700 below the runtime directory', () => {
  const made = makePrivateDirectory({ uid: user, runtimeDirectory: base });
  expect(made.startsWith(join(base, 'boxkite', 'private'))).toBe(true);
  for (const path of [join(base, 'boxkite'), join(base, 'boxkite', 'private'), made]) {
    expect(lstatSync(path).mode & 0o777).toBe(0o700);
  }
});

test('falls back to the temporary directory where the runtime directory is not private', () => {
  const shared = join(base, 'shared');
  mkdirSync(shared);
  own(shared, 0o777);
  const made = makePrivateDirectory({ uid: user, runtimeDirectory: shared, temporaryDirectory: base });
  expect(made.startsWith(join(base, `boxkite-${user}`, 'private'))).toBe(true);
});

test('refuses a directory that others may write', () => {
  const planted = join(base, `boxkite-${user}`);
  mkdirSync(planted);
  own(planted, 0o777);
  expect(() => makePrivateDirectory({ uid: user, runtimeDirectory: '/nowhere', temporaryDirectory: base })).toThrow(
    /others may write/,
  );
});

test('refuses a directory that belongs to somebody else', () => {
  mkdirSync(join(base, `boxkite-${somebodyElse}`), { mode: 0o700 });
  const location = { uid: somebodyElse, runtimeDirectory: '/nowhere', temporaryDirectory: base };
  expect(() => makePrivateDirectory(location)).toThrow(`belongs to user ${uid}`);
});

test.each(['link', 'file'] as const)('refuses a %s in its place', (kind) => {
  const path = join(base, `boxkite-${user}`);
  if (kind === 'link') symlinkSync(base, path);
  else writeFileSync(path, '');
  const attempt = () => makePrivateDirectory({ uid: user, runtimeDirectory: '/nowhere', temporaryDirectory: base });
  expect(attempt).toThrow(BoxkiteError);
  expect(attempt).toThrow(/not a directory/);
});

test('for root only /run/boxkite will do, also when a runtime directory is named', () => {
  if (uid !== 0) {
    expect(() => makePrivateDirectory({ uid: 0, runtimeDirectory: base })).toThrow('/run/boxkite');
    return;
  }
  const made = makePrivateDirectory({ uid: 0, runtimeDirectory: base });
  try {
    expect(made.startsWith('/run/boxkite/private/')).toBe(true);
    expect(lstatSync(made).mode & 0o777).toBe(0o700);
  } finally {
    rmSync(made, { recursive: true });
  }
});
