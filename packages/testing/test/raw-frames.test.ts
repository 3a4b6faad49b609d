/** The raw frames are a second reading of the protocol page; the vectors hold both readings together. */
import { readFileSync } from 'node:fs';
import { closePayload, commitPayload, frame, HEADER, TYPE } from '@boxkite/testing';
import { describe, expect, it } from 'vitest';

const LINES = readFileSync(new URL('../../../docs/reference/runner-protocol-vectors.tsv', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('\t'));

function vector(name: string): { readonly type: number; readonly request: number; readonly payload: string } {
  const [, type = '', request = '', payload = ''] = LINES.find((line) => line[0] === name) ?? [];
  return { type: Number.parseInt(type, 16), request: Number(request), payload };
}

describe('raw frames', () => {
  it('agree with the vectors', () => {
    const close = vector('close_sandbox');
    expect({ type: TYPE.close, payload: closePayload(1n).toString('hex') }).toEqual({
      type: close.type,
      payload: close.payload,
    });
    const commits = LINES.filter((line) => line[1] === '0b');
    expect(commits.length).toBeGreaterThan(0);
    for (const [, , , payload = '', fields = ''] of commits) {
      const { exec, stdout, stderr, end } = JSON.parse(fields) as Record<'exec' | 'stdout' | 'stderr' | 'end', string>;
      expect(commitPayload(BigInt(exec), BigInt(stdout), BigInt(stderr), end === '1').toString('hex')).toBe(payload);
    }
  });

  it('have the header of the page', () => {
    const bytes = frame(TYPE.list, 12);
    expect(bytes.length).toBe(HEADER);
    expect(bytes.toString('hex')).toBe('000000000109' + '0000' + '0c000000');
  });
});
