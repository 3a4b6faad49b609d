import { harmfulValue, type Invocation, isOwnVariable } from '../judgement.ts';
import { keepsDirectory } from '../redirections.ts';
import type { ShellWord } from '../shell-word.ts';
import { refused, requireKnown, requireSafe } from './options.ts';
import type { ProgramCheck } from './program.ts';

const BINARY = new Set('= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef =~'.split(' '));
const INTEGERS = new Set('-eq -ne -lt -le -gt -ge'.split(' '));
const CONNECTIVES = new Set(['-a', '-o', ')', ']']);
/** `-a` and `-o` also stand between two tests, so that what follows them may be an operator. */
const UNARY = /^-[b-np-zA-Z]$/;
/** A conversion of bash that stores a number in the variable that the next argument names, which may be PATH. */
const STORES = /%[-#'+ 0-9.*hjlLtz]*n/;

function noIndex(invocation: Invocation): void {
  const found = invocation.args.find(({ known, text }) => known && (text === '-v' || text === '-R'));
  if (found !== undefined) throw refused(found, invocation, 'bash runs what stands in an index here');
}

/** `test` and `[`: a word that is not known may not become an operator. */
const test: ProgramCheck = (invocation, { judgement }) => {
  const { args } = invocation;
  noIndex(invocation);
  for (const [index, word] of args.entries()) {
    if (word.known) continue;
    judgement.requirePlain(word);
    if (word.lead !== '' && !word.lead.startsWith('-')) continue;
    const [before, after] = [args[index - 1], args[index + 1]];
    const isOperand =
      after === undefined ||
      (after.known && (BINARY.has(after.text) || CONNECTIVES.has(after.text))) ||
      (before?.known === true && (BINARY.has(before.text) || UNARY.test(before.text)));
    if (!isOperand) throw refused(word, invocation, 'it may turn out to be an operator');
  }
};

const doubleBracket: ProgramCheck = (invocation) => {
  noIndex(invocation);
  const { args } = invocation;
  for (const [index, word] of args.entries()) {
    if (!word.known || !INTEGERS.has(word.text)) continue;
    for (const side of [args[index - 1], args[index + 1]]) {
      if (side?.known === true && /^-?[0-9]+$/.test(side.text)) continue;
      throw refused(word, invocation, 'bash evaluates its operands, which can run commands: use [ or whole numbers');
    }
  }
};

const printf: ProgramCheck = (invocation) => {
  const { args } = invocation;
  const [first] = args;
  if (first === undefined) return;
  requireSafe(first, invocation);
  if (first.text.startsWith('-v')) throw refused(first, invocation, 'it sets a variable');
  const [format, ...values] = first.known && first.text === '--' ? args.slice(1) : args;
  if (format === undefined) return;
  if (!format.known && (values.length > 0 || !format.single)) {
    throw refused(format, invocation, 'a format may set a variable by %n: write it out, and give values behind it');
  }
  if (STORES.test(format.text.replaceAll('%%', ''))) throw refused(format, invocation, '%n sets a variable');
};

const read: ProgramCheck = (invocation, { judgement }) => {
  let names = 0;
  for (const word of invocation.args) {
    requireKnown(word, invocation);
    if (word.text === '-r' && names === 0) continue;
    if (!isOwnVariable(word.text)) throw refused(word, invocation, 'only -r and names in lower case are understood');
    judgement.setVariable(word.text, undefined);
    names += 1;
  }
};

const exportVariable: ProgramCheck = (invocation) => {
  for (const word of invocation.args) {
    const name = word.lead.split('=')[0] ?? '';
    const assigns = word.lead.includes('=');
    const named = (word.known || assigns) && word.single;
    const value = word.known ? word.text.slice(assigns ? name.length + 1 : word.text.length) : undefined;
    const harm = harmfulValue(named ? name : '', value);
    if (harm !== null) throw refused(word, invocation, harm);
  }
};

const set: ProgramCheck = (invocation) => {
  const { args } = invocation;
  if (args.length === 0) throw refused(invocation.name, invocation, 'without options it is not understood');
  for (let index = 0; index < args.length; index += 1) {
    const word = args[index] as ShellWord;
    requireKnown(word, invocation);
    const option = /^-[eux]*o$/.test(word.text);
    if (option && args[index + 1]?.known === true && args[index + 1]?.text === 'pipefail') index += 1;
    else if (!/^-[eux]+$/.test(word.text))
      throw refused(word, invocation, 'only -e, -u, -x and -o pipefail are understood');
  }
};

/** `wait`: with `-p` bash runs what stands in the index of a name. */
const wait: ProgramCheck = (invocation) => {
  for (const word of invocation.args) {
    if (word.known && word.text === '--') return;
    if (word.text === '' && word.split.length > 0 && word.split.every((name) => name === '#')) continue;
    requireSafe(word, invocation);
    if (!word.text.startsWith('-') || /^-[fn]+$/.test(word.text)) continue;
    throw refused(word, invocation, 'only -f and -n are understood');
  }
};

/** `jobs`: with `-x` bash starts the program behind it. */
const jobs: ProgramCheck = (invocation) => {
  for (const word of invocation.args) {
    requireSafe(word, invocation);
    if (!word.text.startsWith('-') || /^-[lnprs]+$/.test(word.text)) continue;
    throw refused(word, invocation, 'only -l, -n, -p, -r and -s are understood');
  }
};

const changeDirectory: ProgramCheck = ({ args }, { judgement }) => {
  if (!keepsDirectory(args)) judgement.loseDirectory();
};

const loseDirectory: ProgramCheck = (_invocation, { judgement }) => judgement.loseDirectory();

/** Builtins of the shells whose arguments can change what later commands mean. */
export const BUILTINS: Readonly<Record<string, ProgramCheck>> = {
  test,
  '[': test,
  '[[': doubleBracket,
  printf,
  read,
  export: exportVariable,
  readonly: exportVariable,
  set,
  wait,
  jobs,
  cd: changeDirectory,
  // Another name of `cd` in dash and busybox.
  chdir: loseDirectory,
  pushd: loseDirectory,
  popd: loseDirectory,
};
