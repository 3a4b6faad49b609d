import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { judgeCommand } from '../src/index.ts';

interface Case {
  readonly id: string;
  readonly class: string;
  readonly why: string;
  readonly input: { readonly allowed: readonly unknown[]; readonly command: string };
  readonly expect: 'allow' | 'refuse';
}

const cases = readFileSync(new URL('./corpus/command-allowlist.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

describe('command corpus', () => {
  it('has all of its cases', () => {
    expect(cases).toHaveLength(766);
    expect(cases.filter((entry) => entry.expect === 'allow')).toHaveLength(255);
  });

  it.each(cases)('$id ($class): $why', (entry) => {
    const { verdict, reason } = judgeCommand(entry.input.allowed, entry.input.command);
    expect(verdict, reason).toBe(entry.expect);
    expect(reason).not.toBe('');
    expect(reason).not.toBe('the command is not understood');
  });
});
