import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createByteRedactor, createRedactor } from '../src/index.ts';

interface Case {
  readonly id: string;
  readonly class: string;
  readonly why: string;
  readonly input: { readonly known: Record<string, string>; readonly text?: string; readonly chunks?: string[] };
  readonly expect: { readonly must_not_contain: string[]; readonly must_contain: string[] };
}

const cases = readFileSync(new URL('./corpus/redaction.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

function redactText(entry: Case): string {
  const redactor = createRedactor(entry.input.known);
  const chunks = entry.input.chunks ?? [entry.input.text ?? ''];
  return chunks.map((chunk) => redactor.push(chunk)).join('') + redactor.flush();
}

function redactBytes(entry: Case): string {
  const redactor = createByteRedactor(entry.input.known);
  const bytes = Buffer.from((entry.input.chunks ?? [entry.input.text ?? '']).join(''));
  const pieces = [...bytes].map((byte) => Buffer.from(redactor.push(Uint8Array.of(byte))));
  return Buffer.concat([...pieces, redactor.flush()]).toString();
}

/** Compares without putting a string of the corpus into a failure message. */
function verdict(entry: Case, output: string): Record<string, number> {
  return {
    leaked: entry.expect.must_not_contain.filter((part) => output.includes(part)).length,
    lost: entry.expect.must_contain.filter((part) => !output.includes(part)).length,
  };
}

describe('redaction corpus', () => {
  it('has all of its cases', () => {
    expect(cases).toHaveLength(339);
  });

  it.each(cases)('$id ($class): $why', (entry) => {
    expect(verdict(entry, redactText(entry))).toEqual({ leaked: 0, lost: 0 });
  });

  it.each(cases)('$id byte by byte', (entry) => {
    expect(redactBytes(entry) === redactText(entry)).toBe(true);
  });

  it('hides nothing but known values where patterns are not asked for', () => {
    for (const entry of cases.filter(({ input }) => Object.keys(input.known).length === 0)) {
      const text = entry.input.chunks?.join('') ?? entry.input.text ?? '';
      const redactor = createRedactor({}, { patterns: false });
      expect(redactor.push(text) + redactor.flush() === text, entry.id).toBe(true);
    }
  });
});
