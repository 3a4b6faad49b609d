import { HARMLESS_VARIABLES, type Invocation, isOwnVariable } from '../judgement.ts';
import { keepsDirectory } from '../redirections.ts';
import type { ShellWord } from '../shell-word.ts';
import { refused, requireKnown, requireSafe } from './options.ts';
import type { ProgramCheck } from './program.ts';

const BINARY = new Set('= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef =~'.split(' '));
const INTEGERS = new Set('-eq -ne -lt -le -gt -ge'.split(' '));
const CONNECTIVES = new Set(['-a', '-o', ')', ']']);
const UNARY = /^-[a-zA-Z]$/;

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
  const [first] = invocation.args;
  if (first === undefined) return;
  requireSafe(first, invocation);
  if (first.text.startsWith('-v')) throw refused(first, invocation, 'it sets a variable');
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
    const named = word.known || word.lead.includes('=');
    if (named && word.single && HARMLESS_VARIABLES.has(name)) continue;
    throw refused(word, invocation, `only ${[...HARMLESS_VARIABLES].join(', ')} may be set`);
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
  pushd: loseDirectory,
  popd: loseDirectory,
};
