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

/** Every case that gives a known value is about known values alone: sections 2.1 and 2.5, with their negatives. */
const chosen = cases.filter((entry) => Object.keys(entry.input.known).length > 0);

const CHOSEN_BY_CLASS = {
  'known-raw': 10,
  'known-base64': 22,
  'known-encoded': 16,
  wrapped: 3,
  'chunk-known': 8,
  'chunk-negative': 1,
  'neg-known': 5,
};

/** What the redactor for known values does not decide: formats and labels (2.2, 2.3) and what these must spare (2.4). */
const LATER: Readonly<Record<string, readonly [count: number, reason: string]>> = {
  'aws-id': [4, 'format'],
  gcp: [6, 'format'],
  github: [13, 'format'],
  registry: [7, 'format'],
  ai: [9, 'format'],
  saas: [19, 'format'],
  jwt: [2, 'format'],
  own: [5, 'format'],
  'token-other': [7, 'format'],
  'aws-secret': [8, 'labelled value'],
  azure: [8, 'labelled value'],
  pem: [19, 'format'],
  url: [13, 'labelled value'],
  header: [12, 'labelled value'],
  cookie: [4, 'labelled value'],
  'config-file': [5, 'labelled value'],
  assignment: [20, 'labelled value'],
  wrapped: [5, 'a wrapped token is a format'],
  'chunk-token': [12, 'format'],
  'chunk-pem': [4, 'format'],
  'chunk-assignment': [4, 'labelled value'],
  'chunk-negative': [6, 'spared by formats and labels'],
  'neg-hash': [13, 'spared by formats and labels'],
  'neg-binary': [6, 'spared by formats and labels'],
  'neg-public': [9, 'spared by formats and labels'],
  'neg-prose': [13, 'spared by formats and labels'],
  'neg-placeholder': [16, 'spared by formats and labels'],
  'neg-code': [25, 'spared by formats and labels'],
};

function countByClass(entries: readonly Case[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const entry of entries) counts[entry.class] = (counts[entry.class] ?? 0) + 1;
  return counts;
}

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

describe('redaction corpus, known values', () => {
  it('runs the cases that it is meant to run', () => {
    expect(countByClass(chosen)).toEqual(CHOSEN_BY_CLASS);
    const rest = cases.filter((entry) => !chosen.includes(entry));
    expect(countByClass(rest)).toEqual(
      Object.fromEntries(Object.entries(LATER).map(([name, [count]]) => [name, count])),
    );
  });

  it.each(chosen)('$id: $why', (entry) => {
    expect(verdict(entry, redactText(entry))).toEqual({ leaked: 0, lost: 0 });
  });

  it.each(chosen)('$id byte by byte', (entry) => {
    expect(redactBytes(entry)).toBe(redactText(entry));
  });

  it('returns what the format and label cases hold as it is, having no known value', () => {
    for (const entry of cases.filter((other) => !chosen.includes(other))) {
      expect(redactText(entry) === (entry.input.chunks?.join('') ?? entry.input.text), entry.id).toBe(true);
    }
  });
});
