import type { HereDoc, HereString, Redirect } from 'unbash';
import type { Cursor } from './cursor.ts';
import type { Judgement } from './judgement.ts';
import { quote, Refusal } from './refusal.ts';
import type { ShellWord } from './shell-word.ts';

const WRITABLE = ['/workspace', '/tmp', '/mnt/user-data/outputs'];
const READABLE = [...WRITABLE, '/mnt/user-data/uploads', '/mnt/skills'];
/** Longest first. `&>`, `<<<` and `>&` with a name are refused, since dash reads them otherwise. */
const OPERATORS = ['<<<', '<<-', '&>>', '<<', '<&', '<>', '&>', '>>', '>&', '>|', '<', '>'] as const;

/** Judges the redirection that comes next in the text. */
export function judgeRedirection(cursor: Cursor, node: Redirect | HereDoc | HereString, judgement: Judgement): void {
  cursor.expectAt(node.pos);
  const { source, at } = cursor;
  if (source.charAt(at) === '{') throw new Refusal('only one kind of shell knows {name}> : use a number', at);
  let behind = at;
  while (isDigit(source, behind)) behind += 1;
  // dash takes a longer number as a word of its own.
  if (behind > at + 1) throw new Refusal('a descriptor of more than one digit is read differently by shells', at);
  const operator = OPERATORS.find((candidate) => source.startsWith(candidate, behind));
  if (operator === undefined) throw cursor.disagreement(at);
  cursor.at = behind + operator.length;
  if (operator === '<<' || operator === '<<-') return judgeHeredoc(cursor, node, operator === '<<-');
  if (operator === '&>' || operator === '&>>') {
    throw new Refusal(`${quote(operator)} starts a background command in some shells: use >FILE 2>&1`, at);
  }
  if (operator === '<<<') throw new Refusal("only some shells know <<< : use <<'EOF' or a pipe", at);
  if (node.type !== 'Redirect' || node.target === undefined) throw cursor.disagreement(at);
  if (node.operator !== operator) throw cursor.disagreement(at);
  const target = cursor.word(node.target.pos, node.target.end);
  if (operator === '>&' || operator === '<&') return judgeDescriptor(target);
  judgeTarget(target, operator === '<', judgement);
}

function judgeHeredoc(cursor: Cursor, node: Redirect | HereDoc | HereString, stripsTabs: boolean): void {
  const delimiter = node.type === 'HereDoc' ? node.delimiter : undefined;
  if (delimiter === undefined) throw cursor.unexpected('a delimiter');
  cursor.addBody(cursor.word(delimiter.pos, delimiter.end), stripsTabs);
}

function judgeDescriptor(target: ShellWord): void {
  if (target.bare && /^(?:[0-9]|-)$/.test(target.text)) return;
  throw new Refusal('behind >& or <& stands one digit or - : use >FILE 2>&1 for a file', target.at);
}

function judgeTarget(target: ShellWord, reads: boolean, judgement: Judgement): void {
  const { text, at } = target;
  if (!target.known) throw new Refusal('the file of a redirection must be written out: no parameter, no pattern', at);
  if (text === '/dev/null') return;
  if (text === '') throw new Refusal('the file of a redirection has no name', at);
  if (text.split('/').includes('..')) throw new Refusal('the file of a redirection may not be reached by ..', at);
  if (!text.startsWith('/')) return judgement.addRelativeTarget(target);
  const roots = reads ? READABLE : WRITABLE;
  if (isBelow(text, roots, true)) return;
  const verb = reads ? 'read' : 'written';
  throw new Refusal(`${quote(text)} may not be ${verb} by a redirection: only files below ${roots.join(', ')}`, at);
}

/** Whether an absolute path without `..` lies below one of the roots, by whole components. */
function isBelow(path: string, roots: readonly string[], strictly: boolean): boolean {
  const components = path.split('/').filter((component) => component !== '' && component !== '.');
  const plain = `/${components.join('/')}`;
  return roots.some((root) => plain.startsWith(`${root}/`) || (!strictly && plain === root));
}

/** Whether relative targets stay where they may be after `cd` with these arguments. */
export function keepsDirectory(args: readonly ShellWord[]): boolean {
  const [only] = args;
  if (only === undefined || args.length > 1 || !only.known || only.text === '') return false;
  if (only.text.startsWith('-') || only.text.split('/').includes('..')) return false;
  return !only.text.startsWith('/') || isBelow(only.text, READABLE, false);
}

function isDigit(source: string, at: number): boolean {
  const unit = source.charCodeAt(at);
  return unit >= 0x30 && unit <= 0x39;
}
