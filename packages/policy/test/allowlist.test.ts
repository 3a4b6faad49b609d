import { describe, expect, it } from 'vitest';
import { AllowlistError, compileAllowlist, judgeCommand, parseAllowlist } from '../src/index.ts';

function faultOf(run: () => unknown): AllowlistError {
  try {
    run();
  } catch (error) {
    if (error instanceof AllowlistError) return error;
    throw error;
  }
  throw new Error('nothing was wrong');
}

describe('compileAllowlist', () => {
  it('enforces by the kernel unless the text alone is chosen', () => {
    expect(compileAllowlist(['ls']).enforce).toBe('kernel');
    expect(compileAllowlist({ commands: ['ls'] }).enforce).toBe('kernel');
    expect(compileAllowlist({ commands: ['ls'], enforce: 'text' }).enforce).toBe('text');
  });

  it.each([
    ['./gradlew'],
    ['/workspace/bin/tool'],
    ['/tmp/../tmp/x'],
    ['/usr/bin/../../workspace/x'],
    ['busybox'],
    ['/usr/bin/busybox'],
    ['bin/tool'],
  ])('takes %s only where the text alone decides', (program) => {
    const fault = faultOf(() => compileAllowlist(['ls', program]));
    expect(fault.key).toBe('commands[1]');
    expect(fault.message).toContain('enforce: "text"');
    expect(compileAllowlist({ commands: [program], enforce: 'text' }).programs).toEqual([program]);
  });

  it('takes a file that no agent can replace', () => {
    expect(compileAllowlist(['/usr/bin/true']).programs).toEqual(['/usr/bin/true']);
  });

  it.each<[config: unknown, key: string]>([
    [null, 'allowlist'],
    ['ls', 'allowlist'],
    [{ command: ['ls'] }, 'command'],
    [{ commands: 'ls' }, 'commands'],
    [{ commands: ['ls'], enforce: 'both' }, 'enforce'],
    [['ls', ''], 'commands[1]'],
    [['ls', ' \t'], 'commands[1]'],
    [['ls', 5], 'commands[1]'],
    [['ls', null], 'commands[1]'],
    [[['ls']], 'commands[0]'],
    [[{ command: 'ls', args: [] }], 'commands[0].args'],
    [[{ args_allow: [] }], 'commands[0].command'],
    [[{ command: 'ls', args_allow: 'x' }], 'commands[0].args_allow'],
    [[{ command: 'ls', args_allow: ['x', '('] }], 'commands[0].args_allow[1]'],
    [[{ command: 'ls', args_deny: ['(?=x)'] }], 'commands[0].args_deny[0]'],
    [[{ command: 'ls', args_deny: ['\\1'] }], 'commands[0].args_deny[0]'],
    [[{ command: 'ls', args_deny: [7] }], 'commands[0].args_deny[0]'],
    [Array.from({ length: 1001 }, () => 'ls'), 'commands'],
  ])('refuses %j at %s', (config, key) => {
    expect(faultOf(() => compileAllowlist(config)).key).toBe(key);
    const list = Array.isArray(config) ? config : (config as { commands?: unknown[] } | null)?.commands;
    if (!Array.isArray(list) || list.every((rule) => rule === 'ls')) return;
    const { verdict, reason } = judgeCommand(list, 'ls');
    expect({ verdict, valid: !reason.includes('not valid') }).toEqual({ verdict: 'refuse', valid: false });
  });

  it('tells which programs have a rule without patterns', () => {
    const list = compileAllowlist(['ls', { command: 'git', args_allow: ['log'] }, { command: 'npm', args_deny: [] }]);
    expect(['ls', 'git', 'npm', 'id'].map((name) => list.listsWithoutPatterns(name))).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });

  it('matches a long text with nested repetition in linear time', () => {
    const list = compileAllowlist([{ command: 'ls', args_allow: ['(a+)+'], args_deny: ['(x+x+)+y'] }]);
    const time = (length: number): number => {
      const start = performance.now();
      expect(judgeCommand(list, `ls ${'a'.repeat(length)}!`).verdict).toBe('refuse');
      expect(judgeCommand(list, `ls ${'x'.repeat(length)}`).verdict).toBe('refuse');
      return performance.now() - start;
    };
    time(1000);
    expect(time(60_000)).toBeLessThan(2000);
  });
});

describe('parseAllowlist', () => {
  it.each<[text: string, line: number, key: string]>([
    ['[\n  "ls",\n  ""\n]', 3, 'commands[1]'],
    ['{\n  "commands": ["ls"],\n  "enforced": "text"\n}', 3, 'enforced'],
    ['[\n  {},\n  "x",\n {"command": "git",\n  "args_allow": [\n "a",\n "("] }]', 2, 'commands[0].command'],
    [
      '[\n  {"command": "ls"},\n {"command": "git",\n  "args_allow": [\n "a",\n "("] }]',
      6,
      'commands[1].args_allow[1]',
    ],
    ['[\n {"command": "git",\n  "args_allow": ["a"],\n  "args_allow": [".*"] }]', 4, 'commands[0].args_allow'],
    ['{"commands": ["ls"],\n"commands": ["id"]}', 2, 'commands'],
    ['[\n"ls",\n]', 3, 'allowlist'],
    ['', 1, 'allowlist'],
    ['["ls", "./x"]', 1, 'commands[1]'],
  ])('says where %j is wrong', (text, line, key) => {
    const fault = faultOf(() => parseAllowlist(text, 'allowed.json'));
    expect({ file: fault.file, line: fault.line, key: fault.key }).toEqual({ file: 'allowed.json', line, key });
    expect(fault.message.startsWith(`allowed.json:${line}: ${key} `)).toBe(true);
  });

  it('reads a list', () => {
    expect(parseAllowlist('{"commands": ["ls", {"command": "a\\"b"}], "enforce": "text"}', 'x').programs).toEqual([
      'ls',
      'a"b',
    ]);
  });
});

describe('programs that start others by their options', () => {
  it.each([
    ["sleep 0 & wait -n -p 'a[$(id)]'", 'sleep 0 & wait -n; wait $!'],
    ["x='-p a[$(id)]'; wait $x", 'pid=$!; wait -- "$pid"'],
    ['jobs -x id', 'jobs -lr'],
    ['rg --pre id x', "rg --pre-glob '*.pdf' x"],
    ['rg --pre=id x', 'rg -- --pre x'],
    ['rg x --hostname-bin id', 'rg --pretty x'],
    ['rg "--pre=$x" y', 'rg "x$y" src'],
    ['fd -x id', 'fd -e xml'],
    ['fd x -HX id', 'fd -H x'],
    ['fd --exec-batch id', 'fd -- -x'],
    ['fdfind . --exec=id', 'fdfind --extension xml'],
  ])('%j is refused, %j is not', (refused, allowed) => {
    const list = ['sleep', 'wait', 'jobs', 'rg', 'fd', 'fdfind'];
    expect(judgeCommand(list, refused).verdict).toBe('refuse');
    expect(judgeCommand(list, allowed)).toMatchObject({ verdict: 'allow' });
  });

  it.each(['compgen -C id', "compgen -W '$(id)'", 'complete -C id x', 'fc -s id', "bind -x 'a: id'", 'linux64 id'])(
    '%j is refused even where it is listed',
    (text) => {
      expect(judgeCommand([text.split(' ')[0]], text).reason).toContain('even when it is listed');
    },
  );
});
