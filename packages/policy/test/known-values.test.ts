import { describe, expect, it } from 'vitest';
import { createByteRedactor, createRedactor, KNOWN_VALUE_LIMITS, KnownValues, KnownValuesError } from '../src/index.ts';

/** Text of the given length without repetitions that would make the automaton small. */
function distinctText(length: number, seed: number): string {
  let state = seed;
  let text = '';
  while (text.length < length) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += state.toString(36);
  }
  return text.slice(0, length);
}

function placeholderOf(name: string, value: string, others: Record<string, string> = {}): string {
  const redactor = createRedactor(new Map([[name, value], ...Object.entries(others)]));
  return redactor.push(value) + redactor.flush();
}

describe('placeholder', () => {
  it('carries the name, reduced to harmless characters', () => {
    expect(placeholderOf('API_KEY', 'q8w7e6r5t4')).toBe('[redacted:API_KEY]');
    expect(placeholderOf(']\n\u001b[31mx $&', 'q8w7e6r5t4')).toBe('[redacted:____31mx___]');
    expect(placeholderOf('', 'q8w7e6r5t4')).toBe('[redacted:1]');
    expect(placeholderOf('N'.repeat(500), 'q8w7e6r5t4')).toBe(`[redacted:${'N'.repeat(64)}]`);
  });

  it('begins with the word that its name asks for, unless a value has that', () => {
    const wordOf = (name: string) => (name === 'A' ? 'REDACTED_SECRET' : undefined);
    const placeholder = (value: string) => {
      const redactor = createRedactor(new KnownValues({ A: 'q8w7e6r5t4', B: value }, { wordOf }));
      return redactor.push(`q8w7e6r5t4 ${value}`) + redactor.flush();
    };
    expect(placeholder('z0y9x8w7')).toBe('[REDACTED_SECRET:A] [redacted:B]');
    expect(placeholder('SECRET:')).toBe('[redacted:A] [redacted:B]');
  });

  it('shows no part of any value', () => {
    expect(placeholderOf('hunter2hunter2', 'hunter2hunter2')).toBe('[redacted:1]');
    expect(placeholderOf('NAME', 'q8w7e6r5t4', { B: 'the redacted text' })).toBe('[hidden:NAME]');
    expect(placeholderOf('NAME', 'q8w7e6r5t4', { B: 'redacted hidden: masked' })).toBe('[***]');
    expect(placeholderOf('FIRST_NAME', 'q8w7e6r5t4', { B: 'xFIRST_NAMEx' })).toBe('[redacted:1]');
  });

  it('is not redacted again', () => {
    const known = new KnownValues({ NAME: 'redacted:NAME', OTHER: '[redacted:OTHER]' });
    const once = createRedactor(known);
    const output = once.push('redacted:NAME [redacted:OTHER]') + once.flush();
    const twice = createRedactor(known);
    expect(twice.push(output) + twice.flush()).toBe(output);
    expect(output).not.toContain('redacted');
  });
});

describe('limits', () => {
  it('refuses what it would not look for, without showing the value', () => {
    const many = Object.fromEntries(
      Array.from({ length: KNOWN_VALUE_LIMITS.values + 1 }, (_, i) => [`K${i}`, `value-${i}`]),
    );
    expect(() => new KnownValues(many)).toThrow(KnownValuesError);
    expect(() => createRedactor({ LONG: 'x'.repeat(KNOWN_VALUE_LIMITS.valueBytes + 1) })).toThrow(/"LONG" is longer/);
    expect(() => createRedactor({ WIDE: 'é'.repeat(KNOWN_VALUE_LIMITS.valueBytes / 2 + 1) })).toThrow(KnownValuesError);
    const large = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`K${i}`, distinctText(65_536, i)]));
    expect(() => createRedactor(large)).toThrow(/characters together/);
    expect(() => createRedactor({ LONG: 'secret'.repeat(20_000) })).not.toThrow(/secretsecret/);
  });

  it('looks for a thousand values', () => {
    const entries = Array.from({ length: 1_000 }, (_, index) => [`K${index}`, distinctText(60, index)] as const);
    const redactor = createByteRedactor(new Map(entries));
    const output = Buffer.from(redactor.push(Buffer.from(entries.map(([, value]) => value).join('\n'))));
    const rest = Buffer.from(redactor.flush());
    expect(Buffer.concat([output, rest]).toString()).toBe(entries.map(([name]) => `[redacted:${name}]`).join('\n'));
  });

  it('looks for values of 64 KiB in all forms', { timeout: 60_000 }, () => {
    const value = distinctText(65_536, 1);
    const known = new KnownValues({ K: value });
    for (const text of [value, Buffer.from(value).toString('base64'), Buffer.from(value).toString('hex')]) {
      const redactor = createRedactor(known);
      expect(redactor.push(`<${text.slice(0, 50_000)}`)).toBe('<');
      expect(redactor.push(`${text.slice(50_000)}>`) + redactor.flush()).toBe('[redacted:K]>');
    }
  });
});

describe('held back text', () => {
  it('is bounded, whatever stretches the beginning of a hit', () => {
    const value = 'correct-horse-battery';
    const bound = 4 * 64 + 4096 + 64;
    for (const filler of ['\n', ' ', '\r\n', '\n\t', 'correct-horse']) {
      const redactor = createRedactor({ K: value });
      let given = 0;
      let taken = 0;
      const push = (text: string) => {
        taken += text.length;
        given += redactor.push(text).length;
        expect(taken - given).toBeLessThanOrEqual(bound);
      };
      push('correct');
      for (let round = 0; round < 3000; round += 1) push(filler.repeat(3));
      push('-horse-battery');
      expect(given + redactor.flush().length).toBe(taken);
    }
  });

  it('is nothing once the text has left the beginning of every value', () => {
    const redactor = createRedactor({ K: 'correct-horse-battery' });
    expect(redactor.push('correct')).toBe('');
    expect(redactor.push('ion ~~~~~~')).toBe('correction ~~~~~~');
  });

  it('does not depend on the memory of the pieces', () => {
    const redactor = createByteRedactor({ K: 'correct-horse-battery' });
    const piece = Buffer.from('~~~~ correct-');
    expect(Buffer.from(redactor.push(piece)).toString()).toBe('~~~~ ');
    piece.fill(0);
    expect(Buffer.from(redactor.push(Buffer.from('fit'))).toString() + Buffer.from(redactor.flush()).toString()).toBe(
      'correct-fit',
    );
  });
});
