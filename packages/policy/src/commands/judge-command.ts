import { utf8Length } from '../text-encodings.ts';
import { CommandAllowlist } from './allowlist.ts';
import { AllowlistError } from './allowlist-error.ts';
import { judgeInvocation } from './judge-program.ts';
import { judgeText } from './judge-text.ts';
import { Judgement } from './judgement.ts';
import { Refusal } from './refusal.ts';
import { CommandRules } from './rules.ts';
import { literalWord } from './shell-word.ts';

/** Bytes of a command in UTF-8. */
export const LONGEST_COMMAND = 65_536;

const MOST_HEREDOCS = 2_000;

/** Whether a command may run, and why not. */
export type CommandVerdict =
  | { readonly verdict: 'allow'; readonly reason: string; readonly at: null; readonly program: null }
  | {
      readonly verdict: 'refuse';
      /** What is wrong and what to do, for the author of the command. */
      readonly reason: string;
      /** Index in the command, in UTF-16 units; `null` where the whole command or the list is meant. */
      readonly at: number | null;
      /** The program that is refused, where it is one. */
      readonly program: string | null;
    };

const ALLOWED: CommandVerdict = {
  verdict: 'allow',
  reason: 'every program is on the list',
  at: null,
  program: null,
};

/**
 * Decides whether the text of `sh -c` may run. Every program in it must be on the list, and whatever is not understood, or
 * read differently by dash, bash and busybox, is refused. A guard rail: it says nothing about what a listed program does.
 * Never throws; time and memory grow with the length of the command.
 * @param allowed The compiled list, or its rules: an invalid list refuses every command.
 */
export function judgeCommand(allowed: CommandAllowlist | readonly unknown[], command: string): CommandVerdict {
  return judged(allowed, command, (judgement) => judgeText(command, judgement, 0));
}

/**
 * Decides whether a program may be started with these arguments, without a shell: each is one known word. Otherwise like
 * `judgeCommand`, but a refusal names no place. `sh -c TEXT`, or `/bin/sh -c TEXT`, and nothing more is judged as
 * `judgeCommand` judges TEXT, since the shell of a command is not one of its programs.
 */
export function judgeArguments(
  allowed: CommandAllowlist | readonly unknown[],
  argv: readonly string[],
): CommandVerdict {
  const [name, option, text, ...more] = argv;
  if (name === undefined) return refuse('no program is named', null, null);
  if ((name === 'sh' || name === '/bin/sh') && option === '-c' && text !== undefined && more.length === 0)
    return judgeCommand(allowed, text);
  const verdict = judged(allowed, argv.join(' '), (judgement) => {
    const [program, ...args] = argv.map((word) => literalWord(word, 0));
    if (program !== undefined) judgeInvocation({ name: program, args, depth: 0 }, judgement);
  });
  return verdict.verdict === 'allow' ? verdict : { ...verdict, at: null };
}

/** `text` is all that is judged, by which its size is bounded. */
function judged(
  allowed: CommandAllowlist | readonly unknown[],
  text: string,
  judge: (judgement: Judgement) => void,
): CommandVerdict {
  const rules = rulesOf(allowed);
  if (rules instanceof AllowlistError) return refuse(`the list of commands is not valid: ${rules.message}`, null, null);
  const unfit = unfitText(text);
  if (unfit !== undefined) return unfit;
  try {
    const judgement = new Judgement(rules, judgeText);
    judge(judgement);
    judgement.finish();
    return ALLOWED;
  } catch (error) {
    if (error instanceof Refusal) return refuse(error.message, error.at, error.program);
    // A fault of the grammar or of this package; what is not understood is refused.
    return refuse('the command is not understood', null, null);
  }
}

function rulesOf(allowed: CommandAllowlist | readonly unknown[]): CommandRules | AllowlistError {
  if (allowed instanceof CommandAllowlist) return allowed.rules;
  try {
    return new CommandRules(allowed);
  } catch (error) {
    return error instanceof AllowlistError ? error : new AllowlistError('commands', 'can’t be read');
  }
}

function unfitText(command: unknown): CommandVerdict | undefined {
  if (typeof command !== 'string') return refuse('the command is no text', null, null);
  if (isTooLong(command)) {
    return refuse(`the command is longer than ${LONGEST_COMMAND} bytes: put it into a file`, null, null);
  }
  // The grammar's time grows with the square of the number of heredocs.
  if (command.includes('<<') && command.split('<<').length > MOST_HEREDOCS) {
    return refuse(`more than ${MOST_HEREDOCS} times << in one command: put it into a file`, null, null);
  }
  const nul = command.indexOf('\0');
  if (nul >= 0) return refuse('a NUL character ends the command early: remove it', nul, null);
  if (!command.isWellFormed()) return refuse('half of a character has no bytes: remove it', null, null);
  return undefined;
}

function isTooLong(command: string): boolean {
  if (command.length > LONGEST_COMMAND) return true;
  return command.length * 3 > LONGEST_COMMAND && /[^\0-\u{7f}]/u.test(command) && utf8Length(command) > LONGEST_COMMAND;
}

function refuse(reason: string, at: number | null, program: string | null): CommandVerdict {
  return { verdict: 'refuse', reason, at, program };
}
