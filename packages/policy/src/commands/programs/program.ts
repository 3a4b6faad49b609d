import type { Invocation, Judgement } from '../judgement.ts';
import type { ShellWord } from '../shell-word.ts';

/** What the check of a program may ask for. */
export interface Checks {
  readonly judgement: Judgement;
  /** Judges another program that this one starts, one level deeper. */
  inner(words: readonly ShellWord[], outer: Invocation): void;
  /** Judges text that this program gives to a shell. */
  text(words: readonly ShellWord[], outer: Invocation): void;
}

/** Judges the arguments of one program. @throws Refusal */
export type ProgramCheck = (invocation: Invocation, checks: Checks) => void;
