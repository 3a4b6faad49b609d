import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createByteRedactor, createRedactor, hideSecrets, KnownValues, type RedactorPosition } from '../src/index.ts';

/** Made up, and written so that no file holds a whole one. */
const TOKEN = `gh${'p_'}${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`;
const LONG = `sk-${'ant-'}${'aB3_dE6-'.repeat(12)}`;
const KEY = (words: string): string[] => [`-----BEGIN ${words}-----`, `-----END ${words}-----`];
const KNOWN = new KnownValues({ NAME: 'correct-horse-battery', LINES: 'first\nsecond\nthird-line' });

const part = fc.oneof(
  fc.constantFrom(
    ...[TOKEN, LONG, TOKEN.slice(0, 20), LONG.slice(0, 60), 'correct-horse-battery', 'first\nsecond\nthird-line'],
    ...KEY('PRIVATE KEY'),
    ...KEY('RSA PRIVATE KEY'),
    ...[
      'password=',
      'token: "',
      'secret%3D',
      'token\\u003d',
      'password = """',
      '\\u001b[31m',
      'api_key => ',
      '--password ',
      'https://bob:',
      'pa55word9x',
      'abcdefgh',
      '@host/',
      '"',
      '\\"',
    ],
    ...[
      'Authorization: Bearer ',
      'Cookie: a=',
      '; b=',
      'Set-Cookie: s=',
      'curl -u bob:',
      ' -b c=',
      '<password>',
      '</password>',
    ],
    ...['machine a login b ', 'password ', '"auth": "', 'client-key-data: ', '?sig=', '&access_token=', 'x-api-key: '],
    ...[
      '\n',
      '\r\n',
      ' ',
      '\t',
      'a',
      '9',
      '-',
      '--',
      '-----',
      'g',
      's',
      'SK',
      'eyJ',
      '.',
      '/',
      '\u00e9',
      '\u{1f600}',
      '$X',
    ],
    ...[
      'eyJhbGciOiJub25lIn0.eyJzdWIiOjF9.c2lnbmF0dXJlLXRoaXMtaXM',
      'LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSQ==',
      'x'.repeat(64),
    ],
  ),
  fc.string({ maxLength: 6 }),
);
const text = fc.array(part, { maxLength: 24 }).map((parts) => parts.join(''));
const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 12 });

function pieces(whole: string, at: readonly number[]): string[] {
  const places = [
    0,
    ...at.map((place) => Math.min(place, whole.length)).toSorted((one, two) => one - two),
    whole.length,
  ];
  return places.slice(1).map((end, index) => whole.slice(places[index], end));
}

function redact(parts: readonly string[]): string {
  const redactor = createRedactor(KNOWN);
  return parts.map((piece) => redactor.push(piece)).join('') + redactor.flush();
}

function redactBytes(parts: readonly Uint8Array[]): string {
  const redactor = createByteRedactor(KNOWN);
  return Buffer.concat([...parts.map((piece) => Uint8Array.from(redactor.push(piece))), redactor.flush()]).toString();
}

describe('redaction by format and label', () => {
  it('does not depend on where the text is cut', () => {
    fc.assert(
      fc.property(text, cuts, (whole, at) => {
        expect(redact(pieces(whole, at))).toBe(redact([whole]));
      }),
      { numRuns: 3000 },
    );
  });

  it('hides the same in a whole text, whether or not values are known', () => {
    fc.assert(
      fc.property(text, fc.boolean(), fc.boolean(), (whole, knows, patterns) => {
        const known = knows ? KNOWN : {};
        const redactor = createRedactor(known, { patterns });
        expect(hideSecrets(whole, known, { patterns })).toBe(redactor.push(whole) + redactor.flush());
      }),
      { numRuns: 3000 },
    );
  });

  it.each(['password machine a login b ', 'password login a', 'x password default y', 'password default 1'])(
    'hides the same in %j, wherever it is cut',
    (whole) => {
      for (let at = 0; at <= whole.length; at += 1) expect(redact(pieces(whole, [at]))).toBe(redact([whole]));
    },
  );

  it('hides the same, character by character', () => {
    fc.assert(
      fc.property(text, (whole) => {
        expect(redact([...whole])).toBe(redact([whole]));
      }),
      { numRuns: 500 },
    );
  });

  it('hides the same in bytes', () => {
    fc.assert(
      fc.property(text, cuts, (whole, at) => {
        const bytes = Buffer.from(whole);
        const parts = pieces(bytes.toString('latin1'), at).map((piece) => Buffer.from(piece, 'latin1'));
        expect(redactBytes(parts)).toBe(redact([whole]));
      }),
      { numRuns: 1000 },
    );
  });

  it('goes on from a position as if nothing had happened', () => {
    fc.assert(
      fc.property(text, cuts, (whole, at) => {
        const bytes = Buffer.from(whole);
        const out: Buffer[] = [];
        let from: RedactorPosition = { settled: 0, covered: 0, values: [], steps: 0 };
        let base = 0;
        for (const end of [...at.toSorted((one, two) => one - two), bytes.length]) {
          // Each push is by a redactor of its own, which gets the text from where the last one had settled.
          const redactor = createByteRedactor(KNOWN, { from });
          out.push(Buffer.from(redactor.push(bytes.subarray(base, end))));
          from = JSON.parse(JSON.stringify(redactor.position())) as RedactorPosition;
          base += from.settled;
          from = { ...from, settled: 0 };
        }
        const last = createByteRedactor(KNOWN, { from });
        out.push(Buffer.from(last.push(bytes.subarray(base))), Buffer.from(last.flush()));
        expect(Buffer.concat(out).toString()).toBe(redact([whole]));
      }),
      { numRuns: 1000 },
    );
  });

  it('never throws, and changes nothing but what it hides', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (whole) => {
        const out = redact([whole]);
        if (!out.includes('[redacted:')) expect(out).toBe(whole);
      }),
    );
  });

  it.each([
    ['a prompt', 'Password: '],
    ['a shell’s prompt', 'bob@host:~$ '],
    ['the prompt of an interpreter', '>>> '],
    ['progress', '\rloading 50 %'],
  ])('gives %s out at once', (_name, prompt) => {
    const redactor = createRedactor({});
    expect(redactor.push(prompt)).toBe(prompt);
  });

  it('keeps nothing of a private key that never ends', () => {
    const redactor = createByteRedactor({});
    const [begin] = KEY('PRIVATE KEY');
    redactor.push(Buffer.from(`${begin}\n`));
    for (let count = 0; count < 200; count += 1) {
      expect(redactor.push(Buffer.from(`${'A'.repeat(63)}\n`.repeat(100))).length).toBe(0);
    }
    expect(redactor.position().settled).toBeGreaterThan(1_000_000);
  });

  it('holds back a bounded part of a line that never ends', () => {
    const redactor = createRedactor({});
    let given = redactor.push('password="').length;
    const line = 'abc9'.repeat(4096);
    for (let count = 0; count < 16; count += 1) given += redactor.push(line).length;
    expect(redactor.flush().length).toBeLessThan(20_000);
    expect(given).toBeLessThan(100);
  });
});
