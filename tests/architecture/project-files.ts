/** The files that make up the project: tracked ones and new ones that git does not ignore. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Absolute path of the checkout. */
export const root = join(import.meta.dirname, '..', '..');

/** Paths relative to the root, with `/`; a file that is tracked but deleted is left out. */
export function projectFiles(): readonly string[] {
  const listed = execFileSync(
    'git',
    ['-c', 'safe.directory=*', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 64 << 20,
    },
  );
  return [...new Set(listed.split('\0'))].filter((path) => path !== '' && existsSync(join(root, path))).sort();
}

/** The text of a project file. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** A test in any language, or data and helpers of tests: outside the budgets. */
export function isTest(path: string): boolean {
  if (path.startsWith('packages/testing/src/contract/')) return true;
  return /(^|\/)(tests?|fixtures)\//.test(path) || /(\.test\.ts|\/tests\.rs)$/.test(path);
}

/** Sources in TypeScript that are not tests. */
export function sources(): readonly string[] {
  return projectFiles().filter((path) => path.endsWith('.ts') && !isTest(path));
}

/** Sources in Rust that are not tests. */
export function rustSources(): readonly string[] {
  return projectFiles().filter((path) => path.endsWith('.rs') && !isTest(path));
}
