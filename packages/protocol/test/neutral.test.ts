import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const source = new URL('../src/', import.meta.url);

it('loads in a browser: it imports zod and itself alone, and uses no global of Node', () => {
  const files = readdirSync(source);
  expect(files.length).toBeGreaterThan(5);
  for (const file of files) {
    const text = readFileSync(new URL(file, source), 'utf8');
    const imported = [...text.matchAll(/from '([^']+)'/g)].map((match) => match[1] ?? '');
    for (const name of imported)
      expect([file, name, /^(zod|\.\/[a-z0-9-]+\.ts)$/.test(name)]).toEqual([file, name, true]);
    expect([
      file,
      /\b(Buffer|process|require|__dirname)\b/.test(text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*|'[^']*'/g, '')),
    ]).toEqual([file, false]);
  }
});
