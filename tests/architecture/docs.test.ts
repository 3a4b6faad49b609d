import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { errorRegistry } from '@boxkite/protocol';
import { describe, expect, test } from 'vitest';
import { errorReference } from '../../tools/docs/error-reference.ts';
import { openApiReference, sidecarReference } from '../../tools/docs/openapi.ts';
import { projectFiles, read, root } from './project-files.ts';

const required = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'LICENSE',
  'docs/architecture.md',
  'docs/reference/errors.md',
  'docs/reference/runner-protocol.md',
];
const pages = projectFiles().filter((path) => path.endsWith('.md'));

/** Rows of every table of a page that has a column called `test`: that column's cell of each. */
function testCells(text: string): string[] {
  const cells: string[] = [];
  let column = -1;
  for (const line of text.split('\n')) {
    if (!line.startsWith('|')) {
      column = -1;
      continue;
    }
    const row = line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (column === -1) {
      column = row.findIndex((cell) => cell.toLowerCase() === 'test');
      if (column === -1) column = Number.POSITIVE_INFINITY;
    } else if (column < row.length && !/^:?-+:?$/.test(row[column] ?? '')) {
      cells.push(row[column] ?? '');
    }
  }
  return cells;
}

/** Paths below the project's own folders that a text names in backticks; placeholders and patterns are left out. */
function namedPaths(text: string): string[] {
  const folders = 'packages|tests|tools|docs|runner|scripts|deploy|examples|\\.ci';
  const found = text.matchAll(new RegExp(`\`((?:${folders})/[\\w./-]+)\``, 'g'));
  return [...found].map((match) => (match[1] ?? '').replace(/\/$/, ''));
}

function links(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s#]+)(?:#[^)\s]*)?\)/g)]
    .map((match) => match[1] ?? '')
    .filter((target) => !/^[a-z]+:/.test(target));
}

test.each(required)('%s exists', (path) => {
  expect(existsSync(join(root, path))).toBe(true);
});

describe.each(pages)('%s', (path) => {
  const text = read(path);

  test('links to files that exist', () => {
    const broken = links(text).filter((target) => !existsSync(join(root, normalize(join(dirname(path), target)))));
    expect(broken).toEqual([]);
  });

  test('names files that exist', () => {
    // Build output is named where people look for it, and exists after a build only.
    const missing = namedPaths(text).filter(
      (named) => !named.startsWith('runner/target') && !existsSync(join(root, named)),
    );
    expect(missing).toEqual([]);
  });

  test('names targets of the Makefile that exist', () => {
    const targets = new Set([...read('Makefile').matchAll(/^([a-z][a-z0-9-]*):/gm)].map((match) => match[1]));
    const code = [...text.matchAll(/```[\s\S]*?```|`[^`\n]+`/g)].map((match) => match[0]).join('\n');
    const named = [...code.matchAll(/(?:^|[\s`;&])make ([a-z][a-z0-9-]*)/gm)].map((match) => match[1]);
    expect(named.filter((target) => !targets.has(target))).toEqual([]);
  });
});

test('the page of errors is what the registry says', () => {
  expect(read('docs/reference/errors.md')).toBe(errorReference(errorRegistry));
});

test('the OpenAPI document is what the routes of the server say; otherwise run make docs', async () => {
  const text = await openApiReference();
  const { paths } = JSON.parse(text) as { readonly paths: object };
  expect(Object.keys(paths).length).toBeGreaterThan(20);
  expect(read('docs/reference/openapi.json')).toBe(text);
});

test('the OpenAPI document of the sidecar is what its routes say; otherwise run make docs', async () => {
  const text = await sidecarReference();
  const { paths } = JSON.parse(text) as { readonly paths: object };
  expect(Object.keys(paths)).toEqual(expect.arrayContaining(['/health', '/exec', '/configure', '/execs/{eid}/attach']));
  expect(read('docs/reference/sidecar/openapi.json')).toBe(text);
});

test.each(['docs/reference/openapi.json', 'docs/reference/sidecar/openapi.json'])(
  '%s gives each operation a name of its own, from which generators name functions',
  (path) => {
    type Operations = Readonly<Record<string, { readonly operationId?: string }>>;
    const { paths } = JSON.parse(read(path)) as { readonly paths: Readonly<Record<string, Operations>> };
    const ids = Object.values(paths).flatMap((operations) => Object.values(operations).map((one) => one.operationId));
    expect(ids.every((id) => id !== undefined && /^[a-z]+[A-Za-z0-9]+$/.test(id))).toBe(true);
    expect(new Set(ids).size).toBe(ids.length);
  },
);

test('CONTRIBUTING.md names every package, every folder of tests and every target of the Makefile', () => {
  const page = read('CONTRIBUTING.md');
  const row = (folder: string): string => page.split('\n').find((line) => line.startsWith(`| \`${folder}/\``)) ?? '';
  const folders = (of: string): string[] => [
    ...new Set(projectFiles().flatMap((path) => new RegExp(`^${of}/([^/]+)/`).exec(path)?.[1] ?? [])),
  ];
  for (const of of ['packages', 'tests']) {
    expect(folders(of).length).toBeGreaterThan(4);
    expect(folders(of).filter((name) => !row(of).includes(`\`${name}\``))).toEqual([]);
  }
  const targets = [...read('Makefile').matchAll(/^([a-z][a-z0-9-]*):.*##/gm)].map((match) => match[1]);
  expect(targets.filter((name) => name !== 'help' && !page.includes(`\`make ${name}\``))).toEqual([]);
});

test.each(['SECURITY.md', 'SPECIFICATION.md'].filter((path) => pages.includes(path)))(
  'each claim of %s names a test that exists',
  (path) => {
    const cells = testCells(read(path));
    expect(cells.length).toBeGreaterThan(0);
    const unproven = cells.filter((cell) => {
      const tests = namedPaths(cell).filter((named) => /(^|\/)tests?(\/|\.rs$)|\.test\.ts$|\.rs$/.test(named));
      return tests.length === 0 || tests.some((named) => !existsSync(join(root, named)));
    });
    expect(unproven).toEqual([]);
  },
);

test('the reader of claim tables finds the cells of the column "test" alone', () => {
  const text = '| claim | test |\n|---|---|\n| a | `tests/x.test.ts` |\n\n| other | table |\n|---|---|\n| b | c |\n';
  expect(testCells(text)).toEqual(['`tests/x.test.ts`']);
});
