import { setTimeout as delay } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProcessInput } from '../src/session/process-input.ts';
import { endOfCharacters, startOfCharacters } from '../src/session/utf8.ts';

const PATIENCE_MS = 400;
const never = new Promise<void>(() => undefined);

describe('the input of a process', () => {
  it('is handed on in order, whoever sends it', async () => {
    const got: Buffer[] = [];
    const input = new ProcessInput(async (data) => {
      await delay(1);
      got.push(Buffer.from(data));
    });
    const parts = ['a'.repeat(200_000), 'b', 'c'.repeat(70_000)];
    const written = await Promise.all(parts.map((part) => input.write(Buffer.from(part))));
    await input.close(() => Promise.resolve());
    expect(written).toEqual(parts.map(({ length }) => length));
    expect(Buffer.concat(got).toString()).toBe(parts.join(''));
  });

  it('keeps nobody waiting for a process that does not read, and says what it has taken', async () => {
    let taken = 0;
    const input = new ProcessInput((data) => {
      if (taken >= 100_000) return never;
      taken += data.length;
      return Promise.resolve();
    }, PATIENCE_MS);
    // What is on its way is one piece.
    expect(await input.write(Buffer.alloc(1_000_000))).toBe(3 * 65_536);
    const begun = performance.now();
    const refused = await Promise.allSettled([1, 2, 3].map(() => input.write(Buffer.from('x'))));
    expect(performance.now() - begun).toBeLessThan(3 * PATIENCE_MS);
    for (const outcome of refused) {
      expect(outcome.status === 'rejected' && (outcome.reason as BoxkiteError).code).toBe('capacity');
    }
    await input.close(() => never);
  });

  it('tells of an end while it is written', async () => {
    const input = new ProcessInput(() => Promise.reject(new BoxkiteError('stdin_closed', 'it is')));
    await expect(input.write(Buffer.from('x'))).rejects.toMatchObject({ code: 'stdin_closed' });
    await expect(input.write(Buffer.from('x'))).rejects.toMatchObject({ code: 'stdin_closed' });
  });
});

describe('characters of cut bytes', () => {
  it('are never cut, and whole text is never held back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 20 }), fc.nat(80), (text, cut) => {
        const bytes = Buffer.from(text.toWellFormed());
        expect(endOfCharacters(bytes)).toBe(bytes.length);
        expect(startOfCharacters(bytes)).toBe(0);
        const [before, after] = [bytes.subarray(0, cut), bytes.subarray(cut)];
        const end = endOfCharacters(before);
        expect(before.toString('utf8', 0, end)).not.toContain('\ufffd'.repeat(text.includes('\ufffd') ? 99 : 1));
        expect(Buffer.concat([before.subarray(end), after]).toString()).toBe(bytes.toString('utf8', end));
        expect(startOfCharacters(after)).toBe(cut >= bytes.length ? 0 : restLength(bytes, cut));
      }),
    );
  });

  it.each([
    ['ff', 1],
    ['80', 1],
    ['e282', 0],
    ['c3', 0],
    ['f09f98', 0],
    ['f5', 1],
    ['c080', 2],
    ['41e2', 1],
    ['80808080', 4],
  ])('%s ends at %i', (hex, end) => {
    expect(endOfCharacters(Buffer.from(hex, 'hex'))).toBe(end);
  });
});

/** How many bytes from there on are the rest of a character. */
function restLength(bytes: Buffer, cut: number): number {
  let rest = 0;
  while (cut + rest < bytes.length && ((bytes[cut + rest] as number) & 0xc0) === 0x80) rest += 1;
  return rest;
}
