import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileAllowlist, judgeArguments, judgeCommand } from '../src/index.ts';

const list = compileAllowlist({
  enforce: 'text',
  commands: ['grep', 'ls', 'timeout', 'find', 'bash', 'env', '/usr/bin/env', '/bin/sh', '/usr/bin/vim', './vim'],
});
const patterns = compileAllowlist({ enforce: 'text', commands: [{ command: 'git', args_allow: ['log -1'] }, 'xargs'] });

describe('judgeArguments', () => {
  it.each<[argv: readonly string[], reason: RegExp]>([
    [['curl', 'https://a.example'], /^`curl` is not on the list: /],
    [['sh', '-c', 'ls; id'], /^`id` is not on the list/],
    [['sh', '-ec', 'ls'], /^`sh` is not on the list/],
    [['sh', '-c', 'ls', 'name'], /^`sh` is not on the list/],
    [['sh'], /^`sh` is not on the list/],
    [['timeout', '5', 'id'], /^`id` is not on the list/],
    [['find', '.', '-exec', 'id', ';'], /^`id` is not on the list/],
    [['find', '.', '-delete'], /./],
    [['bash'], /./],
    [['bash', 'script'], /./],
    [['bash', '-c', 'id'], /^`id` is not on the list/],
    [['env', 'PATH=/tmp', 'ls'], /./],
    [['/usr/bin/env', 'id'], /^`id` is not on the list/],
    [['/bin/sh', '-c', 'id'], /^`id` is not on the list/],
    [['/bin/sh'], /./],
    [['/bin//sh', '-c', 'ls'], /is not on the list/],
    [['/usr/bin/vim', 'x'], /refused even when it is listed/],
    [['if'], /^`if` is not on the list/],
    [['', 'x'], /./],
    [[], /no program/],
    [['ls', 'a\0b'], /NUL/],
    [['ls', '\ud800'], /half of a character/],
    [['ls', 'x'.repeat(70_000)], /longer than/],
  ])('refuses %j', (argv, reason) => {
    const verdict = judgeArguments(list, argv);
    expect(verdict.verdict).toBe('refuse');
    expect(verdict.reason).toMatch(reason);
  });

  it.each<[argv: readonly string[]]>([
    [['ls', '-l', '$(id)', '`id`', ';', 'id', '| id', '> x', '\n']],
    [['sh', '-c', 'ls | grep x']],
    [['/bin/sh', '-c', 'ls | grep x']],
    [['bash', '-c', 'ls "$1"', '_', ';id']],
    [['timeout', '5', 'ls']],
    [['find', '.', '-exec', 'ls', '{}', ';']],
    [['./vim', 'x']],
  ])('allows %j', (argv) => {
    expect(judgeArguments(list, argv).verdict).toBe('allow');
  });

  it('judges arguments by the patterns of a rule, and what another program adds never', () => {
    expect(judgeArguments(patterns, ['git', 'log', '-1']).verdict).toBe('allow');
    expect(judgeArguments(patterns, ['git', 'log', '-2']).verdict).toBe('refuse');
    expect(judgeArguments(patterns, ['xargs', 'git', 'log']).verdict).toBe('refuse');
  });

  it('decides as about the same words in quotes', () => {
    const words = fc.constantFrom(
      ...[
        'ls',
        'grep',
        'timeout',
        '5',
        'find',
        '.',
        '-exec',
        'id',
        ';',
        '{}',
        'bash',
        '-c',
        'ls -l',
        'ls; id',
        '-n',
        '',
      ],
      ...['env', 'A=1', 'LANG=C', 'git', 'log', '-1', '$x', '*', '>', "it's"],
    );
    fc.assert(
      fc.property(fc.array(words, { minLength: 1, maxLength: 6 }), (argv) => {
        // A shell takes its own builtins and `sh -c` from us alone.
        fc.pre(argv[0] !== 'sh' && argv[0] !== '/bin/sh');
        const text = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
        expect(judgeArguments(list, argv).verdict).toBe(judgeCommand(list, text).verdict);
      }),
      { numRuns: 3000 },
    );
  });
});
