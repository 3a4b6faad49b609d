import type { Invocation } from '../judgement.ts';
import { Refusal } from '../refusal.ts';
import { type ShellWord, withReplacement } from '../shell-word.ts';
import { refused, requireSafe } from './options.ts';
import type { Checks, ProgramCheck } from './program.ts';

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));
const VALUED = words(
  '-name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -atime -ctime -amin -cmin -newer -perm -user -group -regex -iregex -links -inum -printf',
);
const PLAIN = words(
  '-empty -executable -readable -writable -true -false -nouser -nogroup -not -and -or -a -o ! ( ) , -prune -depth -mount -xdev -daystart -follow -quit -print -print0 -ls',
);
const LEADING = words('-H -L -P');

/** `find`: every word is understood, and what `-exec` starts is judged. */
export const find: ProgramCheck = (invocation, checks) => {
  const { args } = invocation;
  for (const word of args) requireSafe(word, invocation);
  let inExpression = false;
  for (let index = 0; index < args.length; index += 1) {
    const word = args[index] as ShellWord;
    const { text } = word;
    if (!inExpression && (isStartingPoint(word) || LEADING.has(text))) continue;
    inExpression = true;
    if (!word.known) throw refused(word, invocation, 'it is not understood here');
    if (text === '-exec' || text === '-execdir') index = judgeExec(invocation, index, checks);
    else if (VALUED.has(text)) {
      index += 1;
      if (args[index] === undefined) throw refused(word, invocation, 'its value is missing');
    } else if (!PLAIN.has(text))
      throw refused(word, invocation, 'it is not among the tests and actions that are understood');
  }
};

function isStartingPoint({ lead }: ShellWord): boolean {
  return lead !== '' && !lead.startsWith('-') && !PLAIN.has(lead);
}

/** Judges the command behind `-exec`; the index of the word that ends it. */
function judgeExec(invocation: Invocation, from: number, checks: Checks): number {
  const { args, name } = invocation;
  const inner: ShellWord[] = [];
  for (let index = from + 1; index < args.length; index += 1) {
    const word = args[index] as ShellWord;
    const ends =
      word.known && (word.text === ';' || (word.text === '+' && args[index - 1]?.text === '{}' && index > from + 2));
    if (ends) {
      // What -execdir starts stands in another directory, and so do the files that it names.
      if (args[from]?.text === '-execdir') checks.judgement.loseDirectory();
      checks.inner(inner, invocation);
      return index;
    }
    inner.push(withReplacement(word, '{}', true));
  }
  throw new Refusal('the end of -exec is missing: \\; or {} +', args[from]?.at ?? name.at, name.text);
}
