import { readFileSync } from 'node:fs';

/** A sequence of numbers in [0, 1) that is the same for the same seed. */
export function sequence(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The programs that generated commands may start. */
export const LISTED =
  'ls grep echo cat cd test [ true env timeout nice nohup setsid stdbuf xargs find sh dash bash printf read export set eval command exec time sed awk sort tar wc head'.split(
    ' ',
  );

const NAMES = [
  'ls',
  'grep',
  'id',
  'rm',
  'l"s"',
  "'ls'",
  'l\\s',
  'i""d',
  '\\id',
  '"id"',
  './ls',
  '$X',
  '{ls,id}',
  '[l]s',
  'l\\\ns',
];
const WORDS = [
  ...[
    'a',
    '-l',
    '"a b"',
    "'$(id)'",
    '"$X"',
    '$X',
    '*',
    '~',
    '{a,b}',
    'a#b',
    '\\;',
    "';'",
    '"&"',
    '$((1 + 2))',
    '$\x7bX:-y}',
  ],
  ...[
    '$\x7b#X}',
    '$1',
    '"$@"',
    'a=b',
    '--',
    '-',
    '{}',
    '+',
    '\\',
    '"\\""',
    "'it'\\''s'",
    '$(id)',
    '`id`',
    '$',
    '\u00e9',
    'if',
    'done',
  ],
  ...['\\\n', 'a\\\nb', '"a\\\nb"', '$\x7bX%b}', '"$\x7bX:-$(id)}"', '$[1]', "$'a'", '$"a"', '<(id)', '!', '#', '#c'],
];
const WRAPPERS = [
  ...[
    'timeout 5',
    'timeout -s KILL 5',
    'nice',
    'nice -n 5',
    'nohup',
    'setsid',
    'env',
    'env --',
    'env LC_ALL=C',
    'env -u X',
  ],
  ...[
    'xargs',
    'xargs -n 1',
    'xargs -I{}',
    'xargs -r',
    'command',
    'exec',
    'time',
    'eval',
    'sh -c',
    'bash -ec',
    "sh -c 'id'",
  ],
  ...[
    'find . -maxdepth 0 -exec',
    'find in -exec',
    'stdbuf -oL',
    'env -i',
    'timeout',
    'xargs -i',
    'command -v',
    'LC_ALL=C',
    'a=1',
  ],
];
const OPERATORS = [
  ';',
  '&',
  '&&',
  '||',
  '|',
  '\n',
  ' \\\n',
  ';;',
  '|&',
  '#',
  ' # ',
  '\n\n',
  '; ',
  ' & ',
  ')',
  '(',
  '{ ',
  '; }',
  '!',
];
const REDIRECTIONS = [
  '>/dev/null',
  '< in',
  '> out',
  '1>&2',
  '2>&1',
  '>&-',
  '<<E\nx\nE\n',
  "<<'E'\n$(id)\nE\n",
  '>| out',
  '&>out',
  '<<<a',
  '10>out',
];
const FRAMES = [
  ...[
    'if @; then @; fi',
    'if @; then @; else @; fi',
    'for f in a b; do @; done',
    'case a in a) @;; *) @;; esac',
    '{ @; }',
  ],
  ...[
    '( @ )',
    '(@)',
    '! @',
    '@ && @',
    '@ || @',
    '@; @',
    '@ | @',
    '@\n@',
    '[[ -n a ]] && @',
    '((1))',
    'f() { @; }',
    'time @',
  ],
  ...[
    "sh -c '@'",
    'sh -c "@"',
    "eval '@'",
    '@ # @',
    '@ #\n@',
    'find . -maxdepth 0 -exec @ \\;',
    'find . -maxdepth 0 -exec @ {} +',
    'xargs @ < in',
  ],
];

const corpus = readFileSync(new URL('../corpus/command-allowlist.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => (JSON.parse(line) as { input: { command: string } }).input.command)
  .filter((command) => command.length < 300 && !command.includes('\0'));

/** Texts of shell commands: made of parts, and cases of the corpus with something changed. */
export function commandGenerator(seed: number): () => string {
  const random = sequence(seed);
  const pick = (list: readonly string[]): string => list[Math.floor(random() * list.length)] ?? '';
  const simple = (): string => {
    const parts = [random() < 0.25 ? `${pick(WRAPPERS)} ${pick(NAMES)}` : random() < 0.6 ? pick(LISTED) : pick(NAMES)];
    while (random() < 0.5) parts.push(pick(WORDS));
    if (random() < 0.2) parts.splice(Math.floor(random() * (parts.length + 1)), 0, pick(REDIRECTIONS));
    return parts.join(random() < 0.95 ? ' ' : '');
  };
  const nested = (depth: number): string => {
    if (depth === 0 || random() < 0.5) return simple();
    return pick(FRAMES).replaceAll('@', () => nested(depth - 1));
  };
  const changed = (): string => {
    const text = pick(corpus);
    const at = Math.floor(random() * (text.length + 1));
    const insert = pick([...OPERATORS, ...WORDS, 'id', ' id', '; id', '"', "'", '\\', '']);
    return text.slice(0, at) + insert + text.slice(at + (random() < 0.3 ? 1 : 0));
  };
  return () => {
    const kind = random();
    if (kind < 0.3) return changed();
    return kind < 0.4 ? `${nested(1)}${pick(OPERATORS)}${nested(1)}` : nested(2);
  };
}
