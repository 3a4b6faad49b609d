import { describe, expect, test } from 'vitest';
import { read, rustSources, sources } from './project-files.ts';
import { rustFunctions, withoutTests } from './rust-syntax.ts';
import { functionsOf } from './syntax.ts';

const maxFileLines = 400;
const maxFunctionLines = 60;
const maxCrateLines = 3000;
const maxRunnerDependencies = 5;

function countLines(text: string): number {
  return text.replace(/\n$/, '').split('\n').length;
}

function tooLong(path: string, text: string, functions: readonly { line: number; lines: number }[]): string[] {
  const lines = countLines(text);
  const faults = lines > maxFileLines ? [`${path}: ${lines} lines`] : [];
  for (const found of functions) {
    if (found.lines > maxFunctionLines) faults.push(`${path}:${found.line}: a function of ${found.lines} lines`);
  }
  return faults;
}

test(`no TypeScript file over ${maxFileLines} lines, no function over ${maxFunctionLines}`, () => {
  const files = sources();
  expect(files.length).toBeGreaterThan(10);
  const faults = files.flatMap((path) => {
    const text = read(path);
    return tooLong(path, text, functionsOf(path, text));
  });
  expect(faults).toEqual([]);
});

test(`no Rust file over ${maxFileLines} lines, no function over ${maxFunctionLines}`, () => {
  const files = rustSources();
  expect(files.length).toBeGreaterThan(2);
  const faults = files.flatMap((path) => {
    const text = withoutTests(read(path));
    return tooLong(path, text, rustFunctions(text));
  });
  expect(faults).toEqual([]);
});

/** What the privileged program is made of (docs/adr/0001-privileged-crates.md): every crate but the file agent. */
const privileged = [...(/^members = \[(.+)\]$/m.exec(read('runner/Cargo.toml'))?.[1] ?? '').matchAll(/"(.+?)"/g)]
  .map(([, crate = '']) => crate)
  .filter((crate) => crate !== 'agent');

test('the privileged crates are those of the decision record', () => {
  const record = read('docs/adr/0001-privileged-crates.md');
  const named = [...record.matchAll(/^\| `(\w+)` \|/gm)].map(([, crate]) => crate);
  expect(named.length).toBeGreaterThan(5);
  expect(named.toSorted()).toEqual(privileged.toSorted());
});

test.each(privileged)(`no privileged crate over ${maxCrateLines} lines: %s`, (crate) => {
  const files = rustSources().filter((path) => path.startsWith(`runner/${crate}/`));
  expect(files.length).toBeGreaterThan(0);
  const lines = files.reduce((sum, path) => sum + countLines(withoutTests(read(path))), 0);
  expect(lines).toBeLessThanOrEqual(maxCrateLines);
});

/** Names that a manifest has below `dependencies`, those of tests left out. */
function dependencies(manifest: string): readonly string[] {
  const names = new Set<string>();
  let section = '';
  for (const line of manifest.split('\n')) {
    section = /^\[(.+)\]/.exec(line)?.[1] ?? section;
    if (!/(^|\.)(build-)?dependencies$/.test(section) || section.includes('dev-')) {
      const table = /(?:^|\.)(?:build-)?dependencies\.([\w-]+)$/.exec(section)?.[1];
      if (table !== undefined) names.add(table);
      continue;
    }
    const name = /^([\w-]+)\s*[=.]/.exec(line)?.[1];
    if (name !== undefined) names.add(name);
  }
  return [...names];
}

test(`the privileged program has at most ${maxRunnerDependencies} dependencies that are not its own crates`, () => {
  const all = privileged.flatMap((crate) => dependencies(read(`runner/${crate}/Cargo.toml`)));
  const own = all.filter((name) => name.startsWith('boxkite-'));
  const others = new Set(all.filter((name) => !name.startsWith('boxkite-')));
  // Every crate of ours that the program is made of has its own budget above.
  expect(new Set(own.map((name) => name.slice('boxkite-'.length)))).toEqual(
    new Set(privileged.filter((crate) => crate !== 'program')),
  );
  expect(others.size).toBeGreaterThan(0);
  expect(others.size, [...others].join(', ')).toBeLessThanOrEqual(maxRunnerDependencies);
});

describe('the scanner of Rust', () => {
  const long = `fn long(a: [u8; 4]) -> u8 {\n${'    f();\n'.repeat(70)}}\n`;

  test('sees through strings, characters, lifetimes and comments', () => {
    const text = `fn a<'x>(v: &'x str) -> char {\n    // } not the end\n    /* } /* } */ } */\n    let s = "}\\"}";\n    let r = r#"}"}"#;\n    '}'\n}\nfn b() {}\n`;
    expect(rustFunctions(text)).toEqual([
      { name: 'a', line: 1, lines: 7 },
      { name: 'b', line: 8, lines: 1 },
    ]);
  });

  test('finds a long function and passes declarations by', () => {
    expect(rustFunctions(`trait T {\n    fn declared(&self);\n}\n${long}`)).toEqual([
      { name: 'long', line: 4, lines: 72 },
    ]);
  });

  test('leaves test modules out, and only those', () => {
    const text = `fn a() {}\n#[cfg(test)]\nmod tests {\n    ${long}}\nfn b() {}\n`;
    expect(rustFunctions(withoutTests(text)).map((found) => found.name)).toEqual(['a', 'b']);
  });
});

test('the reader of TypeScript finds a long function', () => {
  const text = `export const f = () => {\n${'g();\n'.repeat(70)}};\n`;
  expect(functionsOf('f.ts', text)).toEqual([{ line: 1, lines: 72 }]);
});
