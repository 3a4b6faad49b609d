import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileAllowlist, judgeCommand } from '../src/index.ts';
import { commandGenerator, LISTED } from './support/command-generator.ts';

const COUNT = 2000;
const commands = Array.from({ length: COUNT }, commandGenerator(7));
const few = LISTED.slice(0, 20);
const smaller = compileAllowlist({ enforce: 'text', commands: few });
const larger = compileAllowlist({ enforce: 'text', commands: [...LISTED, { command: 'id', args_allow: ['-u'] }] });

/** As a caller without types would. */
function judgeAnything(...given: readonly unknown[]): unknown {
  return Reflect.apply(judgeCommand, undefined, given);
}

describe('judgeCommand', () => {
  it('allows with a larger list what it allows with a smaller one', () => {
    let allowed = 0;
    for (const command of commands) {
      if (judgeCommand(smaller, command).verdict === 'refuse') continue;
      allowed += 1;
      expect(judgeCommand(larger, command).verdict, command).toBe('allow');
    }
    expect(allowed).toBeGreaterThan(20);
  });

  it('does not care for more blanks between words', () => {
    let compared = 0;
    for (const command of commands) {
      // Only where nothing is quoted, escaped or in a heredoc.
      if (/['"\\`#<$]/.test(command) || !command.includes(' ')) continue;
      compared += 1;
      const wider = command.replaceAll(/ +/g, ' \t ');
      expect(judgeCommand(larger, wider).verdict, command).toBe(judgeCommand(larger, command).verdict);
    }
    expect(compared).toBeGreaterThan(100);
  });

  it('does not care for a comment at the end', () => {
    for (const command of commands) {
      if (/['"\\`#<$]/.test(command)) continue;
      expect(judgeCommand(larger, `${command} # a; id`).verdict, command).toBe(judgeCommand(larger, command).verdict);
    }
  });

  it('always says why, and where there is one, at a place in the text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary', maxLength: 60 }), fc.constantFrom(...commands)), (command) => {
        const { verdict, reason, at } = judgeCommand(larger, command);
        expect(reason.length).toBeGreaterThan(5);
        expect(reason).not.toBe('the command is not understood');
        expect(/[\0-\x1f\x7f]/.test(reason)).toBe(false);
        if (at !== null) expect(at >= 0 && at <= command.length).toBe(true);
        if (verdict === 'allow') expect(at).toBeNull();
      }),
      { numRuns: 3000 },
    );
  });

  it('refuses what is no list and what is no text', () => {
    for (const list of [undefined, null, {}, 'ls', 5, new Map()]) {
      expect(judgeAnything(list, 'ls')).toMatchObject({ verdict: 'refuse' });
    }
    for (const command of [undefined, null, {}, 5, ['ls']]) {
      expect(judgeAnything(larger, command)).toMatchObject({ verdict: 'refuse' });
    }
  });

  it.each([
    ['10 MB of (', '('.repeat(10_000_000)],
    ['100,000 pipes', `ls${'|ls'.repeat(100_000)}`],
    ['half of a character', 'ls \ud800'],
    ['NUL', 'ls\0'],
    ['invalid UTF-8, decoded', Buffer.from([0x6c, 0x73, 0x20, 0xff, 0xfe, 0x3b, 0x69, 0x64]).toString()],
  ])('refuses %s at once', (_name, command) => {
    const start = performance.now();
    expect(judgeCommand(larger, command).verdict).toBe('refuse');
    expect(performance.now() - start).toBeLessThan(500);
  });
});

const SEEDS = [
  ...[
    '(',
    '{ ',
    'ls|',
    'ls;',
    '! ',
    'time ',
    'if ls; then ',
    'case a in a) ',
    'for f in a; do ',
    '$(',
    '`',
    '$\x7bX:-',
    '"$((',
  ],
  ...[
    '((',
    '[[ ',
    'a=(',
    '<<E ',
    'cat <<E ',
    '<(',
    '{a,',
    "'",
    '"',
    '\\\n',
    '\\',
    '#',
    '~',
    '[',
    '*',
    '>',
    '2>&1 ',
    '&',
    ';;',
  ],
  ...[
    'sh -c ',
    'nice ',
    'find . -exec ',
    'xargs -I{} ',
    "sed 's/[/",
    'a=1 ',
    '$',
    '$@',
    '\u00e9',
    'a ',
    'e\u0301',
    '\t',
    '\r',
    '=',
  ],
];

describe('judgeCommand takes time in proportion to the text', () => {
  it.each(SEEDS)('for %j over and over', (seed) => {
    const time = (bytes: number): number => {
      const command = seed.repeat(Math.floor(bytes / Buffer.byteLength(seed)));
      const times = Array.from({ length: 5 }, () => {
        const start = performance.now();
        judgeCommand(larger, command);
        return performance.now() - start;
      });
      return Math.min(...times);
    };
    time(2_000);
    // Eight times the text: a quadratic step would take 64 times as long, on a busy machine too. The floor is noise.
    let ratio = Infinity;
    for (let round = 0; round < 5 && ratio >= 24; round += 1) ratio = time(64_000) / Math.max(time(8_000), 0.5);
    expect(ratio).toBeLessThan(24);
  });
});
