import type { Invocation } from '../judgement.ts';
import { Refusal } from '../refusal.ts';
import type { ShellWord } from '../shell-word.ts';
import {
  type OptionTable,
  refused,
  requireKnown,
  requireSingle,
  safeWords,
  skipOptions,
  takesNext,
} from './options.ts';
import type { ProgramCheck } from './program.ts';
import { isHarmlessSedScript } from './sed-script.ts';

const sed: ProgramCheck = (invocation) => {
  const { options, rest } = safeWords(invocation);
  const scripts: ShellWord[] = [];
  const operands: ShellWord[] = [];
  const table: OptionTable = {
    flags: 'nErsuz',
    valued: 'e',
    long: ['--quiet', '--silent', '--regexp-extended', '--null-data', '--separate', '--in-place'],
    longValued: ['--expression='],
    onOption: (_name, value) => {
      if (value !== undefined) scripts.push(value);
    },
  };
  for (let index = 0; index < options.length; index += 1) {
    const word = options[index] as ShellWord;
    if (!word.known || !word.text.startsWith('-') || word.text === '-') operands.push(word);
    else if (takesNext(invocation, table, withoutSuffix(word, invocation), options[index + 1])) index += 1;
  }
  operands.push(...rest);
  const [first] = operands;
  if (scripts.length === 0 && first !== undefined) scripts.push(first);
  if (scripts.length === 0) throw new Refusal('`sed` lacks a script', invocation.name.at, 'sed');
  for (const script of scripts) requireKnown(script, invocation);
  if (isHarmlessSedScript(scripts.map(({ text }) => text).join('\n'))) return;
  const [script = invocation.name] = scripts;
  throw refused(script, invocation, 'this script may run a program or name a file, or is not understood');
};

/** The letters of an option word before `-i`, which takes the rest of the word as a suffix. */
function withoutSuffix(word: ShellWord, invocation: Invocation): ShellWord {
  const found = /^(-[nErsuz]*)i(.*)$/s.exec(word.text);
  if (found === null) return word;
  if (found[2]?.includes('/') === true) throw refused(word, invocation, 'the suffix of -i may not name a directory');
  return { ...word, text: found[1] === '-' ? '-s' : (found[1] ?? '') };
}

const awk: ProgramCheck = (invocation) => {
  const onOption = (name: string, value: ShellWord | undefined, word: ShellWord): void => {
    if (name !== 'v' || /^[A-Za-z_][A-Za-z0-9_]*=/.test(value?.text ?? '')) return;
    throw refused(word, invocation, 'its value is NAME=VALUE');
  };
  const words = skipOptions(invocation, { valued: 'Fv', separator: true, onOption });
  const [program] = words;
  if (program === undefined) throw new Refusal('`awk` lacks a program', invocation.name.at, invocation.name.text);
  requireKnown(program, invocation);
  const { text } = program;
  const output = text.search(/print/);
  const runs = /system|@/.test(text) || text.replaceAll('||', '').includes('|');
  if (!runs && (output < 0 || !text.slice(output).includes('>'))) return;
  throw refused(program, invocation, 'it may run a program or write a file: no system, @, | or > behind a print');
};

const TAR_LONG: OptionTable = {
  long: ['--create', '--extract', '--list', '--gzip', '--bzip2', '--xz', '--verbose'],
  longValued: ['--file=', '--directory=', '--exclude=', '--strip-components='],
};

const tar: ProgramCheck = (invocation) => {
  const { options } = safeWords(invocation);
  const archive = (name: string, value: ShellWord | undefined): void => {
    if (name !== 'f' && name !== '--file=') return;
    if (value === undefined) throw new Refusal('`tar` lacks the name of an archive', invocation.name.at, 'tar');
    requireKnown(value, invocation);
    if (value.text.includes(':')) throw refused(value, invocation, 'a name with : is an archive on another machine');
  };
  const table = { ...TAR_LONG, flags: 'cxtzjJvp', valued: 'fC', onOption: archive };
  let index = 0;
  const [first] = options;
  if (first !== undefined && !first.lead.startsWith('-')) index = oldStyle(invocation, options, archive);
  for (; index < options.length; index += 1) {
    const word = options[index] as ShellWord;
    if (!word.known || !word.text.startsWith('-')) continue;
    if (takesNext(invocation, table, word, options[index + 1])) index += 1;
  }
};

/** Letters without a dash, whose values are the words that follow, in their order. */
function oldStyle(
  invocation: Invocation,
  words: readonly ShellWord[],
  archive: (name: string, value: ShellWord | undefined) => void,
): number {
  const [letters] = words;
  if (letters === undefined) return 0;
  requireKnown(letters, invocation);
  let used = 1;
  for (const letter of letters.text) {
    if ('fC'.includes(letter)) {
      const value = words[used];
      used += 1;
      if (value !== undefined) requireSingle(value, invocation);
      archive(letter, value);
    } else if (!'cxtzjJvp'.includes(letter)) {
      throw refused(letters, invocation, 'these letters are not among those that are understood');
    }
  }
  return used;
}

/** Programs with `--` that run another one by a long option. */
function withoutLongOption(beginning: string, reason: string): ProgramCheck {
  return (invocation) => {
    for (const word of safeWords(invocation).options) {
      const [name = ''] = word.text.split('=');
      // A shorter spelling of a long option is taken for it where no other one begins so.
      const hidden = name.length > 2 && (name.startsWith(beginning) || beginning.startsWith(name));
      if (word.known && hidden) throw refused(word, invocation, reason);
    }
  };
}

const zip: ProgramCheck = (invocation) => {
  for (const word of safeWords(invocation).options) {
    if (!word.known || !word.text.startsWith('-') || /^-[rqj0-9]+$/.test(word.text)) continue;
    throw refused(word, invocation, 'only -r, -q, -j and digits are understood');
  }
};

const rsync: ProgramCheck = (invocation) => {
  const { options, rest } = safeWords(invocation);
  const table = {
    flags: 'avznrhPuclptgo',
    long: ['--delete', '--dry-run', '--progress', '--archive', '--recursive'],
    longValued: ['--exclude='],
  };
  for (const word of options) if (word.known && /^-./.test(word.text)) takesNext(invocation, table, word, undefined);
  for (const word of [...options, ...rest]) {
    const local = word.known ? !word.text.includes(':') : /^[^:]*\//.test(word.lead) && word.single;
    if (!local) throw refused(word, invocation, 'a word with : is a place on another machine');
  }
};

/** `rg`: `--pre` and `--hostname-bin` name a program that it runs. */
const ripgrep: ProgramCheck = (invocation) => {
  for (const word of safeWords(invocation).options) {
    if (!/^--(?:pre|hostname-bin)(?:=|$)/.test(word.lead)) continue;
    throw refused(word, invocation, 'it names a program that rg runs');
  }
};

/** `fd`: `-x`, `-X` and their long forms start a program for what is found; letters may stand together. */
const fd: ProgramCheck = (invocation) => {
  for (const word of safeWords(invocation).options) {
    if (!/^(?:-[^-]*[xX]|--exec)/.test(word.lead)) continue;
    throw refused(
      word,
      invocation,
      'fd starts a program by -x, -X and --exec: use find . -exec, or write a value apart',
    );
  }
};

const pager: ProgramCheck = (invocation) => {
  for (const word of safeWords(invocation).options) {
    if (!/^[-+]/.test(word.known ? word.text : word.lead)) continue;
    throw refused(word, invocation, 'options of a pager can run programs');
  }
};

/** Programs for text and archives that can start programs by their options or scripts. */
export const TEXT_TOOLS: Readonly<Record<string, ProgramCheck>> = {
  sed,
  awk,
  gawk: awk,
  mawk: awk,
  tar,
  sort: withoutLongOption('--co', 'it names a program that sort runs'),
  split: withoutLongOption('--f', 'it names a program that split runs'),
  zip,
  rsync,
  rg: ripgrep,
  fd,
  fdfind: fd,
  less: pager,
  more: pager,
  man: pager,
};
