import { isControl, quote, Refusal } from './refusal.ts';

/** A parameter in a word. */
export interface Parameter {
  readonly end: number;
  /** Its name where its value is used as it is, else `''`. */
  readonly name: string;
  /** Stands for several words even in quotes. */
  readonly list: boolean;
}

/** Parameters in the words of parameters. */
const DEEPEST_OPERAND = 8;

const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
const NUMBER = /[0-9]+/y;
const OPERATOR = /:-|:\+|-|\+|##|#|%%|%/y;
const ARITHMETIC = /[0-9 \t+\-*/%<>=!&|^~?:,()]*/y;

/**
 * Skips the parameter that begins with the `$` at `at`; `undefined` where the `$` is an ordinary character.
 * @throws Refusal for a form that assigns, indirects or exists in one shell only.
 */
export function skipParameter(source: string, at: number, quoted: boolean, depth = 0): Parameter | undefined {
  const next = source.charAt(at + 1);
  if (next === '{') return skipBraced(source, at, quoted, depth);
  const name = match(NAME, source, at + 1);
  if (name !== '') return { end: at + 1 + name.length, name, list: false };
  if (next === '') return undefined;
  if ('#?$!'.includes(next)) return { end: at + 2, name: '#', list: false };
  if ('0123456789@*-'.includes(next)) return { end: at + 2, name: '', list: next === '@' };
  return undefined;
}

function skipBraced(source: string, at: number, quoted: boolean, depth: number): Parameter {
  if (depth > DEEPEST_OPERAND) throw new Refusal('parameters are nested too deeply: simplify them', at);
  const inner = at + 2;
  if (source.charAt(inner) === '#') {
    const name = match(NAME, source, inner + 1);
    const end = inner + 1 + name.length;
    if (name === '' || source.charAt(end) !== '}') throw oddForm(source, at);
    return { end: end + 1, name: '#', list: false };
  }
  const name = match(NAME, source, inner) || match(NUMBER, source, inner);
  if (name === '') throw oddForm(source, at);
  const behind = inner + name.length;
  if (source.charAt(behind) === '}') return { end: behind + 1, name, list: false };
  const operator = match(OPERATOR, source, behind);
  if (operator === '') throw oddForm(source, at);
  const end = skipOperand({ source, open: at, quoted, depth: depth + 1 }, behind + operator.length);
  return { end, name: '', list: source.slice(behind, end).includes('$@') };
}

/** The word of `${name OP word}` that is skipped. */
interface Operand {
  readonly source: string;
  /** Index of the `$`. */
  readonly open: number;
  readonly quoted: boolean;
  readonly depth: number;
}

/** Skips the word of `${name OP word}`; quotes inside quotes are refused, since shells differ over them. */
function skipOperand(operand: Operand, from: number): number {
  const { source, open, quoted } = operand;
  let at = from;
  while (at < source.length) {
    const character = source.charAt(at);
    if (character === '}') return at + 1;
    if (character === '\\') {
      if ('\n'.includes(source.charAt(at + 1))) throw oddForm(source, open);
      at += 2;
    } else if (character === '$') at = skipDollar(operand, at, quoted);
    else if (character === "'" && !quoted) at = closing(source, at) + 1;
    else if (character === '"' && !quoted) at = skipQuotes(operand, at);
    else if (isOdd(source, at)) throw oddForm(source, open);
    else at += 1;
  }
  throw oddForm(source, open);
}

function isOdd(source: string, at: number): boolean {
  const character = source.charAt(at);
  if (character === '`' || character === "'" || character === '"') return true;
  if (character === '<' || character === '>') return source.charAt(at + 1) === '(';
  const unit = character.charCodeAt(0);
  return unit !== 0x09 && isControl(unit);
}

function skipDollar({ source, open, depth }: Operand, at: number, quoted: boolean): number {
  const next = source.charAt(at + 1);
  if (next === '(' && source.charAt(at + 2) === '(') return skipArithmetic(source, at);
  if ('(\'"[\\'.includes(next)) throw oddForm(source, open);
  return skipParameter(source, at, quoted, depth)?.end ?? at + 1;
}

function closing(source: string, at: number): number {
  const end = source.indexOf("'", at + 1);
  if (end < 0) throw new Refusal("a ' without its end", at);
  return end;
}

function skipQuotes(operand: Operand, from: number): number {
  const { source } = operand;
  let at = from + 1;
  while (at < source.length) {
    const character = source.charAt(at);
    if (character === '"') return at + 1;
    if (character === '`') throw oddForm(source, operand.open);
    if (character === '\\') at += 2;
    else if (character === '$') at = source.charAt(at + 1) === '"' ? at + 1 : skipDollar(operand, at, true);
    else at += 1;
  }
  throw new Refusal('a " without its end', from);
}

/** Skips `$((…))`. @throws Refusal if it holds anything but numbers and operators. */
export function skipArithmetic(source: string, at: number): number {
  const text = match(ARITHMETIC, source, at + 3);
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charAt(index);
    if (character === '(') depth += 1;
    else if (character === ')' && depth > 0) depth -= 1;
    else if (character === ')' && text.charAt(index + 1) === ')') return at + 3 + index + 2;
    else if (character === ')') break;
  }
  throw new Refusal('arithmetic may hold numbers and operators only: a name in it can run a command', at);
}

function match(pattern: RegExp, source: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? '';
}

function oddForm(source: string, at: number): Refusal {
  const end = source.indexOf('}', at);
  const text = source.slice(at, end < 0 ? at + 8 : end + 1);
  return new Refusal(
    `${quote(text)} assigns, runs or differs between shells: use \${name}, or :- :+ # % with a word`,
    at,
  );
}
