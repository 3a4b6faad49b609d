import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

it('uses nothing that only Node or only a browser has', () => {
  const source = new URL('../src/', import.meta.url);
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  expect(files).toContain('redactor.ts');
  for (const name of files) {
    const code = readFileSync(new URL(name, source), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
    expect(code, name).not.toMatch(/'node:|\b(?:Buffer|process|globalThis|window|btoa|atob|TextEncoder|TextDecoder)\b/);
  }
});
