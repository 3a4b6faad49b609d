import { quote, Refusal } from '../refusal.ts';
import type { ShellWord } from '../shell-word.ts';
import { refused, requireKnown, skipOptions } from './options.ts';
import type { ProgramCheck } from './program.ts';

/** `sh` with options and `-c TEXT`: the text is judged, the words behind it are its parameters. */
const shell: ProgramCheck = (invocation, checks) => {
  const { args, name } = invocation;
  let asked = false;
  let index = 0;
  for (; index < args.length; index += 1) {
    const word = args[index] as ShellWord;
    requireKnown(word, invocation);
    if (!word.text.startsWith('-') && !word.text.startsWith('+')) break;
    if (!/^-[euxc]+$/.test(word.text)) throw refused(word, invocation, 'only -e, -u, -x and -c TEXT are understood');
    asked ||= word.text.includes('c');
  }
  if (!asked) {
    const reason = `${quote(name.text)} runs what can’t be seen here: use -c and write the commands out`;
    throw new Refusal(reason, name.at, name.text);
  }
  checks.text(args.slice(index, index + 1), invocation);
};

const evaluate: ProgramCheck = (invocation, checks) => checks.text(invocation.args, invocation);

const ssh: ProgramCheck = (invocation, checks) => {
  const [host, ...words] = skipOptions(invocation, { flags: 'Tnq46', valued: 'pl' });
  if (host === undefined) throw new Refusal('`ssh` lacks a host', invocation.name.at, 'ssh');
  const [first] = words;
  // ssh goes on reading options behind the host.
  if (first?.text.startsWith('-') === true) throw refused(first, invocation, 'put options before the host');
  checks.text(words, invocation);
};

/** Programs that give text to a shell. */
export const SHELLS: Readonly<Record<string, ProgramCheck>> = {
  sh: shell,
  bash: shell,
  dash: shell,
  ash: shell,
  eval: evaluate,
  ssh,
};
