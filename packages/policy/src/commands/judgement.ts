import { quote, Refusal } from './refusal.ts';
import type { CommandRules } from './rules.ts';
import type { ShellWord } from './shell-word.ts';

/** Levels of sub-shells, compound commands, wrappers and texts inside texts. */
const DEEPEST = 32;

/** A simple command: the program, its arguments, and how deep it stands. */
export interface Invocation {
  readonly name: ShellWord;
  readonly args: readonly ShellWord[];
  readonly depth: number;
}

/** The only variables that a command may be started with: they change how output looks, not what runs. */
export const HARMLESS_VARIABLES: ReadonlySet<string> = new Set(['LC_ALL', 'LANG', 'TZ', 'NO_COLOR']);

const LOCALES: ReadonlySet<string> = new Set(['LC_ALL', 'LANG']);
/** In Big5, GBK or Shift JIS a quote or a backslash can be half of a character, and bash reads what follows by that. */
const PLAIN_LOCALE = /^(?:|C|POSIX|(?!zh)[a-z]{2,3}(?:_[A-Z]{2})?|[A-Za-z]{1,3}(?:_[A-Z]{2})?\.utf-?8(?:@[a-z]+)?)$/i;

/** Whether a shell reads text in this locale as in any other one. */
export function isPlainLocale(name: string): boolean {
  return PLAIN_LOCALE.test(name);
}

/** Why a variable may not be set to this value; `null` where it may. A name alone, without a value, sets nothing. */
export function harmfulValue(name: string, value: string | undefined): string | null {
  if (!HARMLESS_VARIABLES.has(name)) return `only ${[...HARMLESS_VARIABLES].join(', ')} may be set`;
  if (!LOCALES.has(name) || (value !== undefined && isPlainLocale(value))) return null;
  return 'the locale must be written out, and be C, POSIX or one of UTF-8: others change how a shell reads text';
}

const VARIABLE = /^[a-z_][a-z0-9_]*$/;

/** Whether a text may set this variable for itself: no program looks at a name in lower case but at those of proxies. */
export function isOwnVariable(name: string): boolean {
  return VARIABLE.test(name) && !name.endsWith('_proxy');
}

/** What is told at the end of a text, when every command has been seen: loops run backwards, too. */
export class Judgement {
  readonly rules: CommandRules;
  /** Judges a text, at a depth. */
  readonly judgeText: (source: string, judgement: Judgement, depth: number) => void;
  readonly #relativeTargets: ShellWord[] = [];
  /** The first change of directory that makes relative targets unknown. */
  #lostDirectory = false;
  /** Variables that the text sets, and whether all their values are plain. */
  readonly #variables = new Map<string, boolean>();
  readonly #plainUses: { readonly word: ShellWord; readonly name: string }[] = [];

  /** @param rules The list that every program must be on. @param judgeText How a text inside the text is judged. */
  constructor(rules: CommandRules, judgeText: Judgement['judgeText']) {
    this.rules = rules;
    this.judgeText = judgeText;
  }

  /** Notes the target of a redirection that is no absolute path. */
  addRelativeTarget(word: ShellWord): void {
    this.#relativeTargets.push(word);
  }

  /** Notes that a relative target may lie anywhere. */
  loseDirectory(): void {
    this.#lostDirectory = true;
  }

  /** Notes a value that a variable gets, or that it gets one that can't be told. */
  setVariable(name: string, value: ShellWord | undefined): void {
    const plain = value?.known === true && /^[\w./:,+=@%-]*$/.test(value.text);
    this.#variables.set(name, plain && this.#variables.get(name) !== false);
  }

  /** Requires that the unquoted parameters of a word become one plain word each. */
  requirePlain(word: ShellWord): void {
    for (const name of word.split) if (name !== '#') this.#plainUses.push({ word, name });
  }

  /** Refuses what the whole text has turned out to make unsafe. */
  finish(): void {
    const [target] = this.#relativeTargets;
    if (this.#lostDirectory && target !== undefined) {
      const advice = 'use an absolute path, or `cd` to one plain path below /workspace';
      throw new Refusal(`where ${quote(target.text)} lies depends on a change of directory: ${advice}`, target.at);
    }
    const spoiled = this.#plainUses.find(({ name }) => this.#variables.get(name) !== true);
    if (spoiled === undefined) return;
    throw new Refusal('a parameter that is not quoted can become an operator of a test: quote it', spoiled.word.at);
  }
}

/** Refuses what is nested too deeply. */
export function deeper(depth: number, at: number): number {
  if (depth >= DEEPEST) throw new Refusal(`nested deeper than ${DEEPEST} levels: split the command`, at);
  return depth + 1;
}
