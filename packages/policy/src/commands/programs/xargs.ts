import { addedWords, literalWord, type ShellWord, withReplacement } from '../shell-word.ts';
import { refused, skipOptions } from './options.ts';
import type { ProgramCheck } from './program.ts';

/** `xargs`: the inner program gets words that nobody knows, at its end or in the place of a mark. */
export const xargs: ProgramCheck = (invocation, checks) => {
  const marks: string[] = [];
  let appends = false;
  const onOption = (option: string, value: ShellWord | undefined, word: ShellWord): void => {
    if (option === 'n' || option === 'L' || option === '--max-args=') appends = true;
    if (option !== 'I') return;
    if (value === undefined || !value.known || value.text === '')
      throw refused(word, invocation, 'its mark is not known');
    marks.push(value.text);
  };
  const words = skipOptions(invocation, {
    flags: '0rt',
    valued: 'nPLIds',
    long: ['--null', '--no-run-if-empty', '--verbose'],
    longValued: ['--max-args=', '--max-procs=', '--delimiter='],
    onOption,
  });
  const { at } = invocation.name;
  const named = words.length === 0 ? [literalWord('echo', at)] : words;
  const inner = named.map((word) => marks.reduce((result, mark) => withReplacement(result, mark), word));
  // Beside -n or -L, some versions of xargs forget -I.
  if (marks.length === 0 || appends) inner.push(addedWords(at));
  checks.inner(inner, invocation);
};
