/** The gate of `tests/requirements.ts`: every numbered fault has a test that exists, or a piece of work. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { counts, type Requirement, requirements, type TestName } from '../requirements.ts';

const root = join(import.meta.dirname, '..', '..');
const texts = new Map<string, string | null>();

function textOf(file: string): string | null {
  const known = texts.get(file);
  if (known !== undefined) return known;
  const path = join(root, file);
  const text = existsSync(path) ? readFileSync(path, 'utf8') : null;
  texts.set(file, text);
  return text;
}

/** What is wrong with a named test, or `null`. A title counts where `it`, `it.each` or `test` declares it. */
function faultOf([file, title]: TestName): string | null {
  const text = textOf(file);
  if (text === null) return `${file} does not exist`;
  if (title === '*') return /\b(it|test)(\.each)?\(/.test(text) ? null : `${file} declares no test`;
  const escaped = title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll("'", "(?:'|\\\\')");
  const declared = new RegExp(`\\(\\s*(['"\`])${escaped}\\1`);
  return declared.test(text) ? null : `${file} declares no test "${title}"`;
}

function faultsOf(list: readonly Requirement[]): string[] {
  return list.flatMap(({ id, by }) => {
    if (typeof by === 'string') return [];
    if (by.length === 0) return [`${id}: neither a test nor work`];
    return by.flatMap((test) => faultOf(test) ?? []).map((fault) => `${id}: ${fault}`);
  });
}

describe('requirements', () => {
  it('name each number once, and no other', () => {
    const wanted = Object.entries(counts).flatMap(([prefix, count]) =>
      Array.from({ length: count }, (_unused, index) =>
        prefix === 'F-' || prefix === 'W-' ? `${prefix}${String(index + 1).padStart(2, '0')}` : `${prefix}${index + 1}`,
      ),
    );
    expect(requirements.map(({ id }) => id)).toEqual(wanted);
  });

  it('have a test that is declared, or a piece of work', () => {
    expect(faultsOf(requirements)).toEqual([]);
  });

  it('would not pass with a test that is not there', () => {
    const broken: readonly Requirement[] = [
      { id: 'a', what: 'x', by: [] },
      { id: 'b', what: 'x', by: [['tests/none.test.ts', '*']] },
      { id: 'c', what: 'x', by: [['tests/contract/exec.test.ts', 'a title that nobody wrote']] },
    ];
    expect(faultsOf(broken)).toHaveLength(3);
  });
});
