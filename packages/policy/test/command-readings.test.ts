/** Texts that a shell or a program reads otherwise than they look, each of which has run what was not on the list. */
import { describe, expect, it } from 'vitest';
import { judgeCommand } from '../src/index.ts';

const LISTED = '[ test printf ls cat sort git cd chdir echo export env i386 uname26'.split(' ');

function verdict(command: string): string {
  return judgeCommand(LISTED, command).verdict;
}

describe('a word of a test that may be the operator -v, behind -a and -o', () => {
  it.each([
    `y=-v; [ 1 -a "$y" 'a[$(id)]' ]`,
    `y=-v; [ 1 = 1 -o "$y" 'a[$(id)]' ]`,
    `y=-v; test -n a -a $y 'a[$(id)]'`,
    `e=; [ 1 -a -v"$e" 'a[$(id)]' ]`,
    `[ 1 -a -? 'a[$(id)]' ]`,
  ])('refuses %s', (command) => expect(verdict(command)).toBe('refuse'));

  it.each([
    '[ -n "$x" -a -n "$y" ]',
    '[ -f "$x" -a "$y" = b ]',
    '[ "$x" -a "$y" ]',
    '[ -a "$x" ]',
    '[ ! -d "$x" -o "$y" ]',
  ])('allows %s', (command) => expect(verdict(command)).toBe('allow'));
});

describe('printf, whose %n sets the variable that an argument names', () => {
  it.each([
    `printf '123%n' PATH; ls`,
    `printf '%*n' 3 PATH; ls`,
    `printf 'x%%%-5.3hn' PATH`,
    `printf -- '1%n' PATH`,
    `f=%n; printf "x$f" PATH; ls`,
  ])('refuses %s', (command) => expect(verdict(command)).toBe('refuse'));

  it.each([
    `printf '%%n\\n'`,
    `printf '%s\\n' "$x"`,
    `printf -- '-%d\\n' "$x"`,
    'printf "about $x\\n"',
    `printf '%5.1f%% new' 3`,
  ])('allows %s', (command) => expect(verdict(command)).toBe('allow'));
});

describe('words that bash expands', () => {
  it('knows no braces whose dots a line continuation parts', () => {
    expect(verdict('sort --{c.\\\n.c}ompress-program=id in')).toBe('refuse');
    expect(verdict('ls >{a.\\\n.b}')).toBe('refuse');
  });

  it('knows no home behind a name', () => {
    const list = [{ command: 'dd', args_deny: ['root'] }];
    for (const word of ['if=~/x', 'if=a:~/x', 'if=~root'])
      expect(judgeCommand(list, `dd ${word}`).verdict).toBe('refuse');
    for (const word of ['if=a~', 'HEAD~1', '--x=~', "if='~'"]) {
      expect(judgeCommand([{ command: 'dd', args_allow: ['.*'] }], `dd ${word}`).verdict, word).toBe('allow');
    }
  });
});

describe('git, which starts a program for a strategy', () => {
  it.each([
    'rebase -s x/id b',
    'rebase -isx/id b',
    'rebase --strategy=x/id b',
    'rebase --strat x/id',
    'pull -r -s x/id . b',
    'rebase -s "$x" b',
  ])('refuses git %s', (words) => expect(verdict(`git ${words}`)).toBe('refuse'));

  it.each([
    'rebase -s ours b',
    'merge --strategy=ort b',
    'merge -ma-s b',
    'merge --stat b',
    'pull -X theirs',
    'commit -s -m x',
    'log --strict',
  ])('allows git %s', (words) => expect(verdict(`git ${words}`)).toBe('allow'));
});

describe('locales in which half of a character is a quote', () => {
  it.each([
    'LC_ALL=zh_CN.GBK\necho "\u4e2d\\" ; id #"',
    'LANG=zh_TW ls',
    'LANG=$x ls',
    'export LC_ALL=ja_JP.SJIS',
    'export LC_ALL="$x"',
    'env LC_ALL=zh_HK ls',
  ])('refuses %s', (command) => expect(verdict(command)).toBe('refuse'));

  it.each([
    'LC_ALL=C ls',
    'LC_ALL= ls',
    'LANG=zh_TW.UTF-8 ls',
    'export LANG',
    'env LANG=en_US.utf8 ls',
    'LANG=C.UTF-8; ls',
    'LANG=de_DE@euro.x; ls; TZ=$x',
  ])('%s', (command) => expect(verdict(command)).toBe(command.includes('@') ? 'refuse' : 'allow'));
});

it('knows other names of programs', () => {
  expect(verdict('chdir /etc; ls >x')).toBe('refuse');
  for (const name of ['i386', 'uname26']) expect(verdict(`${name} id`)).toBe('refuse');
});
