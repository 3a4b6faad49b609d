import type { Invocation } from '../judgement.ts';
import { Refusal } from '../refusal.ts';
import type { ShellWord } from '../shell-word.ts';
import { refused, requireKnown, requireSafe, requireSingle } from './options.ts';
import type { ProgramCheck } from './program.ts';

const SUBCOMMANDS = new Set(
  'add blame branch cat-file checkout clone commit describe diff fetch grep init log ls-files ls-remote merge mv pull push rebase remote reset restore rev-parse rm shortlog show stash status switch tag'.split(
    ' ',
  ),
);
const WITH_MESSAGE = new Set(['commit', 'tag', 'merge', 'stash']);
const WITH_ADDRESS = new Set(['clone', 'fetch', 'pull', 'push', 'remote', 'ls-remote']);
/** Long options that run a program, or name a file outside the repository, by what tells them from others. */
const REFUSED_LONG = ['exec', 'up', 'rec', 'ext-d', 'textconv', 'ope', 'temp', 'conf', 'out'];
const FULL_NAMES = [
  'exec-path',
  'upload-pack',
  'receive-pack',
  'ext-diff',
  'textconv',
  'open-files-in-pager',
  'template',
  'config-env',
  'output',
];
/** Letters that run a program, and letters with a value, behind which a cluster ends. */
const REFUSED_SHORT: Readonly<Record<string, readonly [refused: string, valued: string]>> = {
  rebase: ['x', 'CsXS'],
  clone: ['uc', 'bjo'],
  fetch: ['uc', 'jo'],
  pull: ['uc', 'josXS'],
  'ls-remote': ['uc', 'o'],
  grep: ['O', 'efABCm'],
  merge: ['', 'mFsXS'],
};

/** Subcommands that merge by `-s NAME`: git starts `git-merge-NAME`, which may be a file of the repository. */
const WITH_STRATEGY = new Set(['merge', 'pull', 'rebase']);
const STRATEGIES = new Set(['octopus', 'ort', 'ours', 'recursive', 'resolve', 'subtree']);

/** `git`: a subcommand of git itself, and none of the options that start a program. */
export const git: ProgramCheck = (invocation) => {
  const { args } = invocation;
  let index = 0;
  for (; index < args.length; index += 1) {
    const word = args[index] as ShellWord;
    requireKnown(word, invocation);
    if (word.text === '--no-pager') continue;
    if (word.text !== '-C') break;
    index += 1;
    const directory = args[index];
    if (directory === undefined) throw refused(word, invocation, 'its value is missing');
    requireSafe(directory, invocation);
    requireSingle(directory, invocation);
  }
  const subcommand = args[index];
  if (subcommand === undefined) throw new Refusal('`git` lacks a subcommand', invocation.name.at, 'git');
  if (!SUBCOMMANDS.has(subcommand.text)) {
    throw refused(
      subcommand,
      invocation,
      'only git’s own subcommands are understood, and only -C and --no-pager before them',
    );
  }
  judgeWords(invocation, subcommand.text, args.slice(index + 1));
};

function judgeWords(invocation: Invocation, subcommand: string, words: readonly ShellWord[]): void {
  let separated = false;
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] as ShellWord;
    if (WITH_ADDRESS.has(subcommand)) requirePlainAddress(invocation, word);
    if (separated) continue;
    requireSafe(word, invocation);
    if (!word.known) continue;
    if (word.text === '--') separated = true;
    else if (WITH_MESSAGE.has(subcommand) && /^(?:-[asqvn]*m|--message|-F)$/.test(word.text)) {
      index += 1;
      const message = words[index];
      if (message !== undefined) requireSingle(message, invocation);
    } else judgeOption(invocation, subcommand, word, words[index + 1]);
  }
}

const REASON = 'this option can run a program or write outside the repository';

function judgeOption(invocation: Invocation, subcommand: string, word: ShellWord, next: ShellWord | undefined): void {
  const { text } = word;
  if (!text.startsWith('-')) return;
  const strategy = text.startsWith('--')
    ? judgeLong(invocation, word, next)
    : judgeLetters(invocation, subcommand, word, next);
  if (strategy === null || !WITH_STRATEGY.has(subcommand) || STRATEGIES.has(strategy)) return;
  throw refused(
    word,
    invocation,
    `git starts a program for its strategy: only ${[...STRATEGIES].join(', ')} are known`,
  );
}

/** Judges a long option; the name of a strategy if it may be one, `''` for what is not known. */
function judgeLong(invocation: Invocation, word: ShellWord, next: ShellWord | undefined): string | null {
  const [name = '', ...value] = word.text.slice(2).split('=');
  const hidden = REFUSED_LONG.some((beginning) => name.startsWith(beginning));
  // git takes the beginning of an option for it where no other one begins so.
  if (hidden || FULL_NAMES.some((full) => full.startsWith(name))) throw refused(word, invocation, REASON);
  if (!name.startsWith('str') || !'strategy'.startsWith(name)) return null;
  return value.length > 0 ? value.join('=') : known(next);
}

/** The same for letters behind one dash. */
function judgeLetters(
  invocation: Invocation,
  subcommand: string,
  word: ShellWord,
  next: ShellWord | undefined,
): string | null {
  const [letters, valued] = REFUSED_SHORT[subcommand] ?? ['', ''];
  for (const [index, letter] of [...word.text].entries()) {
    if (letters.includes(letter)) throw refused(word, invocation, REASON);
    if (valued.includes(letter)) return letter === 's' ? word.text.slice(index + 1) || known(next) : null;
  }
  return null;
}

function known(word: ShellWord | undefined): string {
  return word?.known === true ? word.text : '';
}

/** An address such as `ext::command` runs the command. */
function requirePlainAddress(invocation: Invocation, word: ShellWord): void {
  const helpers = ['ext::', 'fd::'];
  const may = word.known
    ? word.text.includes('::')
    : word.text.includes('::') ||
      helpers.some((helper) => helper.startsWith(word.lead) || word.lead.startsWith(helper));
  if (may) throw refused(word, invocation, 'an address with :: starts a program');
}
