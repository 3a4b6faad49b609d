import { parse } from 'unbash';
import type { Judgement } from './judgement.ts';
import { quote, Refusal } from './refusal.ts';
import { Walker } from './walker.ts';

/** Judges a whole text of shell commands. @throws Refusal */
export function judgeText(source: string, judgement: Judgement, depth: number): void {
  const tree = parse(source);
  new Walker(source, judgement).script(tree, depth);
  const [error] = tree.errors ?? [];
  if (error === undefined) return;
  const near = quote(source.slice(error.pos, error.pos + 12));
  throw new Refusal(`the shell would not understand ${near}: ${error.message}`, error.pos);
}
