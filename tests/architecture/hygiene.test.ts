import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isTest, projectFiles, read, root, sources } from './project-files.ts';
import { undocumentedExports } from './syntax.ts';

const maxFileBytes = 1 << 20;

// Written as patterns, so that this file does not contain what it forbids.
const forbidden: readonly (readonly [what: string, pattern: RegExp])[] = [
  [
    'a path of a developer’s machine',
    /(?<![\w.$}])\/(?:work|root)\/[\w.]|(?<![\w.$}])\/home\/(?!user\b|you\b|me\b)\w+\//,
  ],
  ['a folder that is no part of the project', /\.\.\/shared\b|\/\.library\b/],
  [
    'the host of a package registry',
    /registry\.(?:npmjs|yarnpkg)\.|(?:static|index)\.crates\.io|(?:files\.)?python(?:hosted)\.org|\bpypi\.org/,
  ],
  ['a marker of unfinished work', /\b(?:TO[D]O|FIX[M]E|X[X]X)\b/],
  ['a merge conflict', /^(?:<{7}|>{7}) /m],
];
const credentials =
  /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bxox[abp]-[0-9]{10}/;

const files = projectFiles();

function isBinary(path: string): boolean {
  return readFileSync(join(root, path)).subarray(0, 8192).includes(0);
}

test('no binary file and none that is too large', () => {
  expect(files.length).toBeGreaterThan(20);
  expect(files.filter((path) => isBinary(path))).toEqual([]);
  // Lockfiles are as long as what they lock.
  const large = files.filter((path) => !path.endsWith('lock.json') && statSync(join(root, path)).size > maxFileBytes);
  expect(large).toEqual([]);
});

test.each(forbidden)('no file contains %s', (_what, pattern) => {
  const faults = files
    .filter((path) => !path.endsWith('package-lock.json'))
    .flatMap((path) => {
      const match = pattern.exec(read(path));
      return match === null ? [] : [`${path}: ${match[0]}`];
    });
  expect(faults).toEqual([]);
});

test('no file contains the path of this checkout', () => {
  // A checkout right below / may be called like a directory that the project rightly names.
  const own = root.split('/').length > 2 ? root : undefined;
  expect(files.filter((path) => own !== undefined && read(path).includes(`${own}/`))).toEqual([]);
});

test('no file contains a credential', () => {
  // Corpora of the redactor are made of invented ones.
  const faults = files.filter((path) => !isTest(path) && credentials.test(read(path)));
  expect(faults).toEqual([]);
});

test('no lockfile says which registry it was made with', () => {
  const locks = files.filter((path) => path.endsWith('package-lock.json'));
  expect(locks.length).toBeGreaterThan(1);
  expect(locks.filter((path) => read(path).includes('"resolved": "http'))).toEqual([]);
});

test('no cast around the type checker', () => {
  const pattern = /\bas any\b|\bas unknown as\b|@ts-(?:ignore|nocheck)|\bas never\b/;
  const faults = files.filter((path) => path.endsWith('.ts') && path !== 'tests/architecture/hygiene.test.ts');
  expect(faults.filter((path) => pattern.test(read(path)))).toEqual([]);
});

test('file names are in kebab-case', () => {
  const names = files.filter((path) => path.endsWith('.ts')).map((path) => path.slice(path.lastIndexOf('/') + 1));
  expect(names.filter((name) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)*\.ts$/.test(name))).toEqual([]);
});

test('every export of a package has a doc comment', () => {
  const faults = sources()
    .filter((path) => path.startsWith('packages/'))
    .flatMap((path) => undocumentedExports(path, read(path)).map((line) => `${path}:${line}`));
  expect(faults).toEqual([]);
});

describe('the finder of undocumented exports', () => {
  test.each([
    ['export const a = 1;', [1]],
    ['/** Why. */\nexport const a = 1;', []],
    ['// Why.\nexport const a = 1;', [2]],
    ['/** Why. */\nconst b = 2;\nexport const a = 1;', [3]],
    ["export { a } from './a.ts';", []],
    ['/** Why. */\nexport const A = {};\nexport type A = string;', []],
  ])('%j', (text, lines) => {
    expect(undocumentedExports('a.ts', text)).toEqual(lines);
  });
});
