import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type PathOperation, resolveSandboxPath } from '../src/index.ts';

interface Case {
  readonly id: string;
  readonly class: string;
  readonly why: string;
  readonly input: { readonly path: string; readonly op: PathOperation };
  readonly expect: { readonly ok: string } | { readonly error: string };
}

const cases = readFileSync(new URL('./corpus/paths.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

describe('path corpus', () => {
  it('has all of its cases', () => {
    expect(cases).toHaveLength(183);
  });

  it.each(cases)('$id ($class): $why', (entry) => {
    const answer = resolveSandboxPath(entry.input.path, entry.input.op);
    expect(answer).toMatchObject(entry.expect);
    if ('reason' in answer) expect(answer.reason).not.toBe('');
    else expect(resolveSandboxPath(answer.ok, entry.input.op)).toEqual(answer);
  });
});
