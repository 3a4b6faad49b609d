import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createByteRedactor,
  createRedactor,
  type KnownSecrets,
  KnownValues,
  type RedactorPosition,
} from '../src/index.ts';

function redact(known: KnownSecrets | KnownValues, ...chunks: string[]): string {
  const redactor = createRedactor(known);
  return chunks.map((chunk) => redactor.push(chunk)).join('') + redactor.flush();
}

function redactBytes(known: KnownSecrets | KnownValues, ...chunks: Uint8Array[]): Buffer {
  const redactor = createByteRedactor(known);
  // Copied at once: an answer may be a view of the piece.
  const pieces = chunks.map((chunk) => Buffer.from(redactor.push(chunk)));
  return Buffer.concat([...pieces, Buffer.from(redactor.flush())]);
}

/** As `redactBytes`, with another redactor for each piece, which gets again what the one before had not settled. */
function redactRestarted(known: KnownValues, ...chunks: Uint8Array[]): string {
  let redactor = createByteRedactor(known);
  const given: Buffer[] = [];
  let rest = Buffer.alloc(0);
  for (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk]);
    given.push(Buffer.from(redactor.push(rest)));
    const from = JSON.parse(JSON.stringify(redactor.position())) as RedactorPosition;
    rest = rest.subarray(from.settled);
    redactor = createByteRedactor(known, { from });
  }
  given.push(Buffer.from(redactor.push(rest)), Buffer.from(redactor.flush()));
  return Buffer.concat(given).toString();
}

function cut<T extends { slice(from: number, to: number): T; length: number }>(text: T, cuts: readonly number[]): T[] {
  const at = [...cuts.map((part) => Math.floor(part * (text.length + 1))), 0, text.length].sort((a, b) => a - b);
  return at.slice(1).map((end, index) => text.slice(at[index] ?? 0, end));
}

/** Spellings made by other means than those of the redactor. */
const SPELLINGS: Readonly<Record<string, (value: string) => string>> = {
  raw: (value) => value,
  base64: (value) => Buffer.from(value).toString('base64'),
  base64url: (value) => Buffer.from(value).toString('base64url'),
  'base64 one byte later': (value) => Buffer.from(`x${value}`).toString('base64').slice(2),
  'base64 two bytes later': (value) => Buffer.from(`xy${value}`).toString('base64url').slice(3),
  'base64 within other data': (value) => {
    const core = Buffer.from(`ab${value}cd`).toString('base64');
    return core.slice(3, Math.floor(((2 + Buffer.byteLength(value)) * 8) / 6));
  },
  hex: (value) => Buffer.from(value).toString('hex'),
  'upper hex': (value) => Buffer.from(value).toString('hex').toUpperCase(),
  percent: (value) => encodeURIComponent(value),
  'percent, lower digits': (value) => encodeURIComponent(value).replace(/%../g, (digits) => digits.toLowerCase()),
  'percent, mixed digits': (value) =>
    encodeURIComponent(value).replace(/%(.)(.)/g, (_, one: string, two: string) => `%${one.toLowerCase()}${two}`),
  'percent, slash kept': (value) => encodeURIComponent(value).replaceAll('%2F', '/'),
  'percent, all reserved': (value) =>
    encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`),
  form: (value) => new URLSearchParams({ v: value }).toString().slice(2),
  json: (value) => JSON.stringify(value).slice(1, -1),
  'json, slash escaped': (value) => JSON.stringify(value).slice(1, -1).replaceAll('/', '\\/'),
  'json, ASCII only': (value) =>
    JSON.stringify(value)
      .slice(1, -1)
      .replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
  'json twice': (value) => JSON.stringify(JSON.stringify(value).slice(1, -1)).slice(1, -1),
};
const spelling = fc.constantFrom(...Object.keys(SPELLINGS));
function spell(name: string, value: string): string {
  return SPELLINGS[name]?.(value) ?? value;
}

const word = (characters: string, minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...characters), minLength, maxLength });
/** Values that begin and end visibly, so that the planted text and the hit are the same stretch. */
const value = fc
  .tuple(word('aB3', 1, 1), word('abcXYZ019 /+-_=%"\\&<é€\u{1F600}', 10, 60), word('aB3', 1, 1))
  .map((parts) => parts.join(''));
/** Characters of no form of such a value. */
const around = word('#^|;\n ~', 0, 40);
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { maxLength: 8 });
/** `REDACTOR_RUNS` asks for a longer search. */
const RUNS = Number(process.env['REDACTOR_RUNS'] ?? '400');
const PLACEHOLDER = '[redacted:KEY]';

describe('redactor', { timeout: 30_000 + RUNS * 20 }, () => {
  it('replaces every spelling of a value, and nothing around it', () => {
    fc.assert(
      fc.property(value, spelling, around, around, cuts, (secret, name, before, after, where) => {
        const text = before + spell(name, secret) + after;
        const wanted = before + PLACEHOLDER + after;
        expect(redact({ KEY: secret }, ...cut(text, where))).toBe(wanted);
        const bytes = redactBytes({ KEY: secret }, ...cut<Uint8Array>(Buffer.from(text), where));
        expect(bytes.toString()).toBe(wanted);
      }),
      { numRuns: RUNS },
    );
  });

  it('finds a spelling with line breaks anywhere in it', () => {
    const broken = fc.array(
      fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom('\n', '\r\n', '\n    ', '\r\n\t')),
      {
        minLength: 1,
        maxLength: 6,
      },
    );
    fc.assert(
      fc.property(value, spelling, around, broken, cuts, (secret, name, before, breaks, where) => {
        let text = spell(name, secret);
        for (const [share, ending] of breaks) {
          // Not inside a pair of surrogates: a line break there would not be text.
          const units = [...text];
          const at = 1 + Math.floor(share * (units.length - 2));
          text = units.slice(0, at).join('') + ending + units.slice(at).join('');
        }
        expect(redact({ KEY: secret }, ...cut(before + text, where))).toBe(before + PLACEHOLDER);
      }),
      { numRuns: RUNS },
    );
  });

  it('finds a form broken once or twice near its beginning, wherever it stands in a long piece', () => {
    const known = new KnownValues({ KEY: 'q7Zk9-pW2x' });
    const form = 'q7Zk9-pW2x';
    for (let before = 0; before < 12; before += 1) {
      for (let one = 1; one < form.length; one += 1) {
        for (let two = one; two < form.length; two += 1) {
          const broken = `${form.slice(0, one)}\n  ${form.slice(one, two)}\r\n${form.slice(two)}`;
          const [start, end] = ['the end of it'.slice(12 - before), ' and then more of the same text'.repeat(2)];
          expect(redact(known, start + broken + end)).toBe(start + PLACEHOLDER + end);
        }
      }
    }
  });

  it('hides exactly the union of all occurrences, wherever the text is cut', () => {
    const secrets = fc.uniqueArray(word('aAb1', 6, 12), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(secrets, word('aAb1', 0, 300), cuts, (values, text, where) => {
        const known = new KnownValues(Object.fromEntries(values.map((secret, index) => [`K${index}`, secret])));
        const hidden = new Set<number>();
        for (const secret of values) {
          for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1)) {
            for (let index = at; index < at + secret.length; index += 1) hidden.add(index);
          }
        }
        const kept = [...text].filter((_, index) => !hidden.has(index)).join('');
        const output = redact(known, ...cut(text, where));
        expect(output.replace(/\[[a-z]+:\w+\]/g, '')).toBe(kept);
        expect(output).toBe(redact(known, text));
        expect(redactRestarted(known, ...cut<Uint8Array>(Buffer.from(text), where))).toBe(output);
      }),
      { numRuns: RUNS },
    );
  });

  it('gives the same for every cut of text with white space, breaks and parts of values', () => {
    const values = fc.uniqueArray(word('ab \nA%/', 6, 14), { minLength: 1, maxLength: 3 });
    const piece = fc.oneof(word('ab \n\r\tA%/2fF', 0, 12), fc.tuple(fc.nat(2), fc.nat(13), spelling));
    fc.assert(
      fc.property(values, fc.array(piece, { maxLength: 30 }), cuts, (secrets, pieces, where) => {
        const known = new KnownValues(Object.fromEntries(secrets.map((secret, index) => [`K${index}`, secret])));
        const text = pieces
          .map((part) =>
            typeof part === 'string' ? part : spell(part[2], secrets[part[0]] ?? '').slice(0, 6 + part[1]),
          )
          .join('');
        const whole = redact(known, text);
        expect(redact(known, ...cut(text, where))).toBe(whole);
        expect(redact(known, ...text)).toBe(whole);
        expect(redactBytes(known, ...cut<Uint8Array>(Buffer.from(text), where)).toString()).toBe(whole);
        expect(redactRestarted(known, ...cut<Uint8Array>(Buffer.from(text), where))).toBe(whole);
      }),
      { numRuns: RUNS },
    );
  });

  it('passes any bytes without a hit through unchanged', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000 }), cuts, (bytes, where) => {
        const known = { KEY: 'correct horse battery staple', KÖY: 'ünlikely-välue' };
        expect(redactBytes(known, ...cut(bytes, where)).equals(bytes)).toBe(true);
      }),
    );
  });

  it('hides planted values at every cut into two and three pieces', () => {
    const secret = 'pässword/with "quotes" €9';
    const known = { KEY: secret };
    for (const name of Object.keys(SPELLINGS)) {
      const text = `before ${spell(name, secret)}\nafter`;
      const whole = redact(known, text);
      expect(whole, name).toBe(`before ${PLACEHOLDER}\nafter`);
      for (let one = 0; one <= text.length; one += 1) {
        expect(redact(known, text.slice(0, one), text.slice(one))).toBe(whole);
        expect(redact(known, text.slice(0, one), '', text.slice(one, one + 3), text.slice(one + 3))).toBe(whole);
      }
    }
  });

  it('returns a piece with nothing to hide or hold as the same object', () => {
    const redactor = createByteRedactor({ KEY: 'correct-horse-battery' });
    const chunk = Buffer.from('nothing to see here .........');
    expect(redactor.push(chunk)).toBe(chunk);
    expect(createRedactor({}).push('anything')).toBe('anything');
  });

  it('lets longer values win and names every value of an overlap', () => {
    expect(redact({ A: 'secret-one', B: 'my-secret-one-two' }, 'x my-secret-one-two secret-one')).toBe(
      'x [redacted:B] [redacted:A]',
    );
    expect(redact({ A: 'abcdefgh', B: 'efghijkl' }, '<abcdefghijkl>')).toBe('<[redacted:A][redacted:B]>');
    expect(redact({ A: 'xyxyxyxy' }, `<${'xy'.repeat(50)}>`)).toBe('<[redacted:A]>');
  });

  it('leaves short and blank values alone and says so', () => {
    const known = new KnownValues({ A: '12345', B: '      ', C: '', D: '\n1234\n\n', E: '123456' });
    expect(known.ignored).toEqual(['A', 'B', 'C', 'D']);
    expect(redact(known, '12345       1234 123456')).toBe('12345       1234 [redacted:E]');
  });

  it('finds a value of several lines with CRLF, indented, on one line, and without its last newline', () => {
    const key = '-----BEGIN KEY-----\nAAAAbbbb1111\nCCCCdddd2222\n-----END KEY-----\n';
    for (const text of [
      key,
      key.trim(),
      key.replaceAll('\n', '\r\n'),
      key.replaceAll('\n', '\n      '),
      key.replaceAll('\n', ' '),
      key.replaceAll('\n', ''),
    ]) {
      expect(redact({ K: key }, `<${text.trim()}>`)).toBe('<[redacted:K]>');
    }
    expect(redact({ K: 'a\nb\nc\nd' }, 'abcd a b c d a\r\nb\nc\nd')).toBe('abcd a b c d [redacted:K]');
  });

  it('does not take parts, other cases or stretched blanks for a value', () => {
    const known = { K: 'Correct horse 9' };
    for (const text of ['Correct horse', 'correct horse 9', 'Correct  horse 9', 'Correcthorse9', 'orrect horse 9']) {
      expect(redact(known, text)).toBe(text);
    }
  });

  it('calls back for every placeholder it writes', () => {
    const seen: string[] = [];
    const redactor = createRedactor({ K: 'correct-horse' }, { onRedacted: (placeholder) => seen.push(placeholder) });
    redactor.push('correct-horse, correct-');
    redactor.push('horse, correct-horse');
    redactor.flush();
    expect(seen).toEqual(['[redacted:K]', '[redacted:K]', '[redacted:K]']);
  });

  it('starts afresh after a flush', () => {
    const redactor = createRedactor({ K: 'correct-horse' });
    expect(redactor.push('x correct-')).toBe('x ');
    expect(redactor.flush()).toBe('correct-');
    expect(redactor.push('horse; correct-horse;') + redactor.flush()).toBe('horse; [redacted:K];');
  });

  it.each([' ', '\t', '\r', '  \t', 'a ', ' \n', 'a  \n '])(
    'takes time in proportion to a text of %j alone',
    (piece) => {
      const time = (units: number): number => {
        const redactor = createRedactor({ K: 'correct-horse battery' });
        const text = piece.repeat(units / piece.length);
        const start = performance.now();
        for (let at = 0; at < text.length; at += 65_536) redactor.push(text.slice(at, at + 65_536));
        expect(redactor.flush().length).toBeLessThan(text.length);
        return performance.now() - start;
      };
      time(65_536);
      // 400 ns a unit; a look at all that is left, at each unit, takes some 50 µs.
      expect(time(262_144)).toBeLessThan(100 + 0.0004 * 262_144);
    },
  );
});
