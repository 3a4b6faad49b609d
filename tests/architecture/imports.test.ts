import { existsSync, readdirSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { importTable, type Rule } from './import-table.ts';
import { isTest, projectFiles, read, root } from './project-files.ts';
import { type Import, importsOf } from './syntax.ts';

const manifest = z.object({
  name: z.string(),
  exports: z.record(z.string(), z.string()),
  imports: z.record(z.string(), z.record(z.string(), z.string())).default({}),
  dependencies: z.record(z.string(), z.string()).default({}),
  devDependencies: z.record(z.string(), z.string()).default({}),
});

interface Package {
  readonly folder: string;
  readonly manifest: z.infer<typeof manifest>;
  readonly files: readonly string[];
  readonly tests: readonly string[];
}

const packages: readonly Package[] = readdirSync(join(root, 'packages')).map((folder) => ({
  folder,
  manifest: manifest.parse(JSON.parse(read(`packages/${folder}/package.json`))),
  files: projectFiles().filter((path) => path.startsWith(`packages/${folder}/src/`) && path.endsWith('.ts')),
  tests: projectFiles().filter((path) => path.startsWith(`packages/${folder}/test/`) && path.endsWith('.ts')),
}));
const workspaceNames = new Set(packages.map((found) => found.manifest.name));

function packageName(specifier: string): string {
  const parts = specifier.split('/');
  return specifier.startsWith('@') ? parts.slice(0, 2).join('/') : (parts[0] ?? '');
}

function isBuiltin(specifier: string): boolean {
  return specifier.startsWith('node:') || builtinModules.includes(specifier);
}

/** Files that `entry` loads as soon as it is loaded: through static imports that are more than types. */
function reached(entry: string): ReadonlySet<string> {
  const seen = new Set<string>();
  const waiting = [entry];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path) || !existsSync(join(root, path))) continue;
    seen.add(path);
    for (const found of importsOf(path, read(path))) {
      if (found.kind === 'static' && found.specifier.startsWith('.')) waiting.push(resolveFrom(path, found.specifier));
    }
  }
  return seen;
}

function resolveFrom(path: string, specifier: string): string {
  return normalize(join(dirname(path), specifier));
}

/** Packages that this file may import statically, and those that it may import lazily. */
function allowances(pkg: Package, rule: Rule, path: string) {
  const always = [...rule.packages];
  const fromRoot = reached(`packages/${pkg.folder}/src/index.ts`);
  for (const [entry, extra] of Object.entries(rule.entries ?? {})) {
    // A file that the root entry loads as well is bound by the root entry's rule.
    if (!fromRoot.has(path) && reached(`packages/${pkg.folder}/${entry}`).has(path)) always.push(...extra);
  }
  return { always, lazy: rule.lazy ?? [] };
}

/** A `#name` of the manifest stands for one of several files of the package, by platform: it loads when it is used. */
function privateFault(pkg: Package, found: Import, at: string): string | undefined {
  const targets = Object.values(pkg.manifest.imports[found.specifier] ?? {});
  if (targets.length === 0) return `${at} is not in the manifest's imports`;
  const missing = targets.find((target) => !pkg.files.includes(`packages/${pkg.folder}/${normalize(target)}`));
  if (missing !== undefined) return `${at} stands for ${missing}, which is no source of the package`;
  return found.kind === 'static' ? `${at} may be named by import() and types only` : undefined;
}

function fault(pkg: Package, rule: Rule, path: string, found: Import): string | undefined {
  const { specifier, kind } = found;
  const at = `${path}:${found.line}: ${specifier}`;
  if (specifier.startsWith('.')) {
    const target = resolveFrom(path, specifier);
    return target.startsWith(`packages/${pkg.folder}/src/`) ? undefined : `${at} leaves the sources of the package`;
  }
  if (isBuiltin(specifier)) return undefined;
  if (specifier.startsWith('#')) return privateFault(pkg, found, at);
  const name = packageName(specifier);
  // What only tests import is never shipped, and neither is what it needs.
  const declared =
    rule.testOnly === true
      ? { ...pkg.manifest.dependencies, ...pkg.manifest.devDependencies }
      : pkg.manifest.dependencies;
  if (!(name in declared) && name !== pkg.manifest.name) {
    return `${at} is not in the package's dependencies`;
  }
  if (!workspaceNames.has(name)) return undefined;
  const { always, lazy } = allowances(pkg, rule, path);
  if (always.includes(specifier) || always.includes('*')) return undefined;
  if (lazy.includes(specifier)) {
    return kind === 'static' ? `${at} may be named by import() and types only` : undefined;
  }
  return `${at} is not in the import table`;
}

const lock = z.object({
  packages: z.record(z.string(), z.object({ dependencies: z.record(z.string(), z.string()).default({}) })),
});
const locked = lock.parse(JSON.parse(read('package-lock.json'))).packages;

describe.each(packages)('$folder', (pkg) => {
  const rule = importTable[pkg.folder];

  test('has a rule and sources', () => {
    expect(rule).toBeDefined();
    expect(pkg.files.length).toBeGreaterThan(0);
  });

  test('imports what the table allows', () => {
    const faults = pkg.files.flatMap((path) =>
      importsOf(path, read(path)).flatMap((found) => fault(pkg, rule ?? { packages: [] }, path, found) ?? []),
    );
    expect(faults).toEqual([]);
  });

  test('declares nothing that it does not import', () => {
    const imported = new Set(
      [...pkg.files, ...pkg.tests].flatMap((path) =>
        importsOf(path, read(path)).map((found) => packageName(found.specifier)),
      ),
    );
    const unused = Object.keys(pkg.manifest.dependencies).filter((name) => !imported.has(name));
    expect(unused).toEqual([]);
  });

  test('names exact versions', () => {
    expect(Object.values(pkg.manifest.dependencies).filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  });

  test('is what package-lock.json says; otherwise run make lock', () => {
    expect(locked[`packages/${pkg.folder}`]?.dependencies).toEqual(pkg.manifest.dependencies);
  });

  test('has no entry that is missing', () => {
    const missing = Object.values(pkg.manifest.exports).filter(
      (path) => !existsSync(join(root, 'packages', pkg.folder, path)),
    );
    expect(missing).toEqual([]);
  });

  if (rule?.neutral !== true) return;
  test('loads outside Node', () => {
    const faults: string[] = [];
    for (const path of reached(`packages/${pkg.folder}/src/index.ts`)) {
      for (const found of importsOf(path, read(path))) {
        if (found.kind === 'static' && isBuiltin(found.specifier)) faults.push(`${path}: ${found.specifier}`);
      }
    }
    expect(faults).toEqual([]);
  });
});

test('no package and no example imports the testing package', () => {
  const faults = projectFiles()
    .filter((path) => path.endsWith('.ts') && /^(packages|examples)\//.test(path))
    .filter((path) => !isTest(path) && !path.startsWith('packages/testing/'))
    .filter((path) => importsOf(path, read(path)).some((found) => packageName(found.specifier) === '@boxkite/testing'));
  expect(faults).toEqual([]);
});

/** A library has no main.ts: what BOXKITE_URL means is the SDK's own matter. */
const environmentReaders = ['packages/sdk/src/node/environment.ts'];

test('main.ts alone reads the environment', () => {
  const faults = packages
    .filter((pkg) => pkg.folder !== 'testing')
    .flatMap((pkg) => pkg.files)
    .filter((path) => !path.endsWith('/src/main.ts') && !environmentReaders.includes(path))
    .filter((path) => /\bprocess\s*\.\s*env\b/.test(read(path)));
  expect(faults).toEqual([]);
});
