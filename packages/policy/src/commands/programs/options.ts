import type { Invocation } from '../judgement.ts';
import { quote, Refusal } from '../refusal.ts';
import type { ShellWord } from '../shell-word.ts';

/** The options of a program that are understood, unabbreviated; any other one is refused. */
export interface OptionTable {
  /** Letters without a value. */
  readonly flags?: string;
  /** Letters with a value, attached or in the next word. */
  readonly valued?: string;
  /** Long options without a value, with their dashes. */
  readonly long?: readonly string[];
  /** Long options with a value behind `=`, with both. */
  readonly longValued?: readonly string[];
  /** `-5` is an option. */
  readonly numeric?: boolean;
  /** `--` ends the options. */
  readonly separator?: boolean;
  /** Called with each letter or long option, and its value. */
  readonly onOption?: (name: string, value: ShellWord | undefined, word: ShellWord) => void;
}

/** Requires that a word can be told before the command runs. */
export function requireKnown(word: ShellWord, { name }: Invocation): void {
  if (word.known) return;
  throw new Refusal(`${quote(name.text)} must get this word written out: no parameter, no pattern`, word.at, name.text);
}

/** A refusal of an argument. */
export function refused(word: ShellWord, { name }: Invocation, reason: string): Refusal {
  return new Refusal(`${quote(word.text)} of ${quote(name.text)}: ${reason}`, word.at, name.text);
}

/** Reads the options in front of the operands; the words from the first operand on. */
export function skipOptions(invocation: Invocation, table: OptionTable): readonly ShellWord[] {
  const { args } = invocation;
  for (let index = 0; index < args.length; index += 1) {
    const word = args[index] as ShellWord;
    requireKnown(word, invocation);
    const { text } = word;
    if (text === '--' && table.separator === true) return args.slice(index + 1);
    if (!text.startsWith('-') || (text === '-' && table.separator !== true)) return args.slice(index);
    if (takesNext(invocation, table, word, args[index + 1])) index += 1;
  }
  return [];
}

/** Reads one option word; tells whether the next word is its value. */
export function takesNext(
  invocation: Invocation,
  table: OptionTable,
  word: ShellWord,
  next: ShellWord | undefined,
): boolean {
  const { text } = word;
  if (text === '-') throw notUnderstood(word, invocation);
  if (table.numeric === true && /^-[0-9]+$/.test(text)) return false;
  if (!text.startsWith('--')) return readCluster(invocation, table, word, next);
  const named = table.longValued?.find((prefix) => text.startsWith(prefix));
  if (named === undefined && table.long?.includes(text) !== true) throw notUnderstood(word, invocation);
  table.onOption?.(named ?? text, named === undefined ? undefined : rest(word, named.length), word);
  return false;
}

/** Letters behind one dash; the last one may have a value. */
function readCluster(
  invocation: Invocation,
  { flags = '', valued = '', onOption }: OptionTable,
  word: ShellWord,
  next: ShellWord | undefined,
): boolean {
  const { text } = word;
  for (let at = 1; at < text.length; at += 1) {
    const letter = text.charAt(at);
    if (valued.includes(letter)) {
      const attached = at + 1 < text.length;
      const value = attached ? rest(word, at + 1) : next;
      if (value === undefined) throw refused(word, invocation, 'its value is missing');
      if (!attached) requireSingle(value, invocation);
      onOption?.(letter, value, word);
      return !attached;
    }
    if (!flags.includes(letter)) throw notUnderstood(word, invocation);
    onOption?.(letter, undefined, word);
  }
  return false;
}

function rest(word: ShellWord, from: number): ShellWord {
  return { ...word, text: word.text.slice(from) };
}

function notUnderstood(word: ShellWord, invocation: Invocation): Refusal {
  return refused(word, invocation, 'this option is not among those that are understood');
}

/** Requires that a word stays one word, so that the words behind it are what they seem. */
export function requireSingle(word: ShellWord, { name }: Invocation): void {
  if (word.single) return;
  throw new Refusal(`${quote(name.text)} must get one word here: quote it`, word.at, name.text);
}

/** Requires that a word can't turn out to be an option. */
export function requireSafe(word: ShellWord, { name }: Invocation): void {
  if (word.safe) return;
  const advice = 'begin it with ./ and quote it, or put -- before it where the program knows that';
  throw new Refusal(`a word of ${quote(name.text)} may turn out to be an option: ${advice}`, word.at, name.text);
}

/** The words up to a literal `--`, all of them option-safe, and those behind it. */
export function safeWords(invocation: Invocation): { options: readonly ShellWord[]; rest: readonly ShellWord[] } {
  const end = invocation.args.findIndex((word) => word.known && word.text === '--');
  const options = end < 0 ? invocation.args : invocation.args.slice(0, end);
  for (const word of options) requireSafe(word, invocation);
  return { options, rest: end < 0 ? [] : invocation.args.slice(end + 1) };
}
