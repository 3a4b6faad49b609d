import { deeper, type Invocation, type Judgement } from './judgement.ts';
import type { Checks } from './programs/program.ts';
import { NEVER, PROGRAM_CHECKS } from './programs/table.ts';
import { quote, Refusal } from './refusal.ts';
import type { ShellWord } from './shell-word.ts';

/** A program that is named by its path there is the one that is known by its name. */
const SYSTEM_DIRECTORY = /^\/+(?:usr\/+(?:local\/+)?)?s?bin\/+/;

/** Judges one program with its arguments: its name, the rules about its arguments, the built-in checks. */
export function judgeInvocation(invocation: Invocation, judgement: Judgement): void {
  const { name, args } = invocation;
  if (!name.known) {
    throw new Refusal('the name of a program must be written out: no parameter, no pattern', name.at);
  }
  const program = name.text;
  const reason = judgement.rules.refuses(program, args);
  if (reason !== null) throw new Refusal(`${quote(program)} ${reason}`, name.at, program);
  const known = program.startsWith('/') ? program.replace(SYSTEM_DIRECTORY, '') : program;
  if (NEVER.has(known)) {
    const what = 'is refused even when it is listed: what it runs, or what names mean after it, can’t be seen here';
    throw new Refusal(`${quote(program)} ${what}`, name.at, program);
  }
  PROGRAM_CHECKS.get(known)?.(invocation, checksFor(judgement));
}

function checksFor(judgement: Judgement): Checks {
  return {
    judgement,
    inner: ([name, ...args], outer) => {
      const { at, text } = outer.name;
      if (name === undefined) throw new Refusal(`${quote(text)} lacks a command`, at, text);
      if (name.known && name.text.startsWith('-')) {
        throw new Refusal(`${quote(name.text)} of ${quote(text)} is no option that is understood`, name.at, text);
      }
      judgeInvocation({ name, args, depth: deeper(outer.depth, name.at) }, judgement);
    },
    text: (words, outer) => judgeInnerText(words, outer, judgement),
  };
}

function judgeInnerText(words: readonly ShellWord[], { name, depth }: Invocation, judgement: Judgement): void {
  const [first] = words;
  if (first === undefined) throw new Refusal(`${quote(name.text)} lacks a command`, name.at, name.text);
  const unknown = words.find((word) => !word.known);
  if (unknown !== undefined) {
    const reason = `the text that ${quote(name.text)} runs must be written out: no parameter outside single quotes`;
    throw new Refusal(reason, unknown.at, name.text);
  }
  try {
    judgement.judgeText(words.map(({ text }) => text).join(' '), judgement, deeper(depth, first.at));
  } catch (error) {
    if (error instanceof Refusal) error.at = first.at;
    throw error;
  }
}
