import { harmfulValue, type Invocation } from '../judgement.ts';
import { quote, Refusal } from '../refusal.ts';
import type { ShellWord } from '../shell-word.ts';
import { type OptionTable, refused, requireKnown, skipOptions } from './options.ts';
import type { ProgramCheck } from './program.ts';

const DURATION = /^(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[smhd]?$/;
const CPUS = /^[0-9A-Fa-fxX][0-9A-Fa-fxX,:-]*$/;
const ASSIGNMENT = /^([A-Za-z_][A-Za-z0-9_]*)=/;

/** A program that takes options and then another program. */
function wrapper(
  table: OptionTable,
  skipOperand?: (words: readonly ShellWord[], outer: Invocation) => number,
): ProgramCheck {
  return (invocation, checks) => {
    const words = skipOptions(invocation, table);
    const skipped = skipOperand?.(words, invocation) ?? 0;
    checks.inner(words.slice(skipped), invocation);
  };
}

function operand(pattern: RegExp, what: string) {
  return ([word]: readonly ShellWord[], outer: Invocation): number => {
    if (word === undefined)
      throw new Refusal(`${quote(outer.name.text)} lacks ${what}`, outer.name.at, outer.name.text);
    if (!pattern.test(word.text)) throw refused(word, outer, `this is not ${what}`);
    return 1;
  };
}

function noAssignment([word]: readonly ShellWord[], outer: Invocation): number {
  if (word !== undefined && ASSIGNMENT.test(word.text)) throw refused(word, outer, 'it may set no variables');
  return 0;
}

const asUser = wrapper({ flags: 'n', valued: 'u' }, noAssignment);

const nice: ProgramCheck = (invocation, checks) => {
  if (invocation.args.length === 0) return;
  const words = skipOptions(invocation, { valued: 'n', longValued: ['--adjustment='], numeric: true });
  checks.inner(words, invocation);
};

const env: ProgramCheck = (invocation, checks) => {
  const onOption = (_name: string, value: ShellWord | undefined, word: ShellWord): void => {
    if (value?.text === 'PATH') throw refused(word, invocation, 'without PATH another file of a listed name may run');
  };
  const table = { valued: 'u', longValued: ['--unset='], separator: true, onOption };
  if (invocation.args.some(({ known, text }) => known && text === '-')) throw refusedDash(invocation);
  let words = skipOptions(invocation, table);
  for (;;) {
    const [word] = words;
    if (word === undefined) return;
    requireKnown(word, invocation);
    if (!word.text.includes('=')) return checks.inner(words, invocation);
    const name = ASSIGNMENT.exec(word.text)?.[1];
    const harm = harmfulValue(name ?? '', word.text.slice(word.text.indexOf('=') + 1));
    if (harm !== null) throw refused(word, invocation, harm);
    words = words.slice(1);
  }
};

function refusedDash(invocation: Invocation): Refusal {
  const { name } = invocation;
  return new Refusal('`env -` takes PATH away, so that another file of a listed name may run', name.at, name.text);
}

const flock: ProgramCheck = (invocation, checks) => {
  const words = skipOptions(invocation, { flags: 'nxseu', valued: 'w' });
  const [file, option, ...text] = words;
  if (file === undefined || option === undefined) throw missing(invocation);
  if (!option.known || option.text !== '-c') return checks.inner(words.slice(1), invocation);
  if (text.length !== 1) throw refused(option, invocation, 'it takes one word');
  checks.text(text, invocation);
};

const watch: ProgramCheck = (invocation, checks) => {
  checks.text(skipOptions(invocation, { flags: 'dtge', valued: 'n' }), invocation);
};

const exec: ProgramCheck = (invocation, checks) => checks.inner(skipOptions(invocation, {}), invocation);

const command: ProgramCheck = (invocation, checks) => {
  const [first, ...names] = invocation.args;
  if (first?.known === true && (first.text === '-v' || first.text === '-V')) {
    if (names.length === 0) throw missing(invocation);
    return;
  }
  exec(invocation, checks);
};

function missing({ name }: Invocation): Refusal {
  return new Refusal(`${quote(name.text)} lacks a command`, name.at, name.text);
}

/** Programs that start the program in their arguments. */
export const WRAPPERS: Readonly<Record<string, ProgramCheck>> = {
  timeout: wrapper(
    {
      valued: 'sk',
      long: ['--preserve-status', '--foreground'],
      longValued: ['--signal=', '--kill-after='],
    },
    operand(DURATION, 'a duration such as 5 or 0.5m'),
  ),
  nohup: wrapper({}),
  nice,
  setsid: wrapper({ flags: 'fwc', long: ['--fork', '--wait', '--ctty'] }),
  stdbuf: wrapper({ valued: 'ioe', longValued: ['--input=', '--output=', '--error='] }),
  time: wrapper({ flags: 'p' }),
  ionice: wrapper({ flags: 't', valued: 'cn' }),
  taskset: wrapper({ flags: 'c' }, operand(CPUS, 'a mask or list of processors')),
  sudo: asUser,
  doas: asUser,
  env,
  flock,
  watch,
  exec,
  command,
  busybox: exec,
  toybox: exec,
};
