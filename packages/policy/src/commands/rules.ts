import { RE2JS } from 're2js';
import { AllowlistError } from './allowlist-error.ts';
import type { ShellWord } from './shell-word.ts';

interface Rule {
  /** `undefined` where any arguments do. */
  readonly allow: readonly RE2JS[] | undefined;
  readonly deny: readonly RE2JS[];
}

const KEYS = new Set(['command', 'args_allow', 'args_deny']);
const MOST_RULES = 1_000;
const MOST_PATTERNS = 100;
const LONGEST_PATTERN = 1_000;
const LONGEST_NAME = 4_096;
const NAMES_IN_A_REASON = 12;

/** The rules of a list, by program. */
export class CommandRules {
  /** The program of each rule, in the order of the list. */
  readonly names: readonly string[];
  readonly #rules = new Map<string, Rule[]>();

  /** @param list What the configuration holds. @throws AllowlistError for the whole list if any part of it is wrong. */
  constructor(list: unknown, key = 'commands') {
    if (!Array.isArray(list)) throw new AllowlistError(key, 'must be a list of programs');
    if (list.length > MOST_RULES) throw new AllowlistError(key, `has more than ${MOST_RULES} rules`);
    this.names = list.map((entry: unknown, index) => this.#add(entry, `${key}[${index}]`));
  }

  /** Names of the programs, in the order of the list. */
  get programs(): string[] {
    return [...this.#rules.keys()];
  }

  /** Programs that a rule names without patterns. */
  withoutPatterns(program: string): boolean {
    return this.#rules.get(program)?.some(isFree) ?? false;
  }

  /** Why the program may not get these arguments by its rules; `null` where it may. */
  refuses(program: string, args: readonly ShellWord[]): string | null {
    const rules = this.#rules.get(program);
    if (rules === undefined) return `is not on the list: ${this.#summary()}`;
    if (rules.some(isFree)) return null;
    if (!args.every(({ known }) => known)) {
      return 'has rules about its arguments, so that each must be written out: no parameter, no pattern';
    }
    const text = args.map((word) => word.text).join(' ');
    if (rules.some((rule) => accepts(rule, text))) return null;
    const denied = rules.every(({ deny }) => deny.some((pattern) => pattern.matcher(text).find()));
    return denied
      ? 'may not get these arguments: a deny pattern is in them'
      : 'may not get these arguments: no rule allows them';
  }

  #summary(): string {
    const names = this.programs.toSorted();
    if (names.length === 0) return 'it is empty';
    const shown = names.slice(0, NAMES_IN_A_REASON).join(', ');
    return names.length > NAMES_IN_A_REASON ? `${shown} and ${names.length - NAMES_IN_A_REASON} more` : shown;
  }

  /** Adds a rule; the name of its program. */
  #add(entry: unknown, key: string): string {
    if (typeof entry === 'string') return this.#put(readName(entry, key), { allow: undefined, deny: [] });
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
      throw new AllowlistError(key, 'must be the name of a program or a rule with `command`');
    }
    const unknown = Object.keys(entry).find((name) => !KEYS.has(name));
    if (unknown !== undefined) {
      throw new AllowlistError(`${key}.${unknown}`, `is no key of a rule: ${[...KEYS].join(', ')}`);
    }
    const { command, args_allow: allow, args_deny: deny } = entry as Record<string, unknown>;
    return this.#put(readName(command, `${key}.command`), {
      allow: allow === undefined ? undefined : readPatterns(allow, `${key}.args_allow`, 0),
      deny: deny === undefined ? [] : readPatterns(deny, `${key}.args_deny`, RE2JS.DOTALL),
    });
  }

  #put(name: string, rule: Rule): string {
    const rules = this.#rules.get(name);
    if (rules === undefined) this.#rules.set(name, [rule]);
    else rules.push(rule);
    return name;
  }
}

function isFree({ allow, deny }: Rule): boolean {
  return allow === undefined && deny.length === 0;
}

function accepts({ allow, deny }: Rule, text: string): boolean {
  if (deny.some((pattern) => pattern.matcher(text).find())) return false;
  return allow === undefined || allow.some((pattern) => pattern.matcher(text).matches());
}

function readName(name: unknown, key: string): string {
  if (typeof name !== 'string') throw new AllowlistError(key, 'must be the name of a program');
  if (name.trim() === '') throw new AllowlistError(key, 'is blank');
  if (name.length > LONGEST_NAME) throw new AllowlistError(key, `is longer than ${LONGEST_NAME} characters`);
  return name;
}

function readPatterns(patterns: unknown, key: string, flags: number): RE2JS[] {
  if (!Array.isArray(patterns)) throw new AllowlistError(key, 'must be a list of patterns');
  if (patterns.length > MOST_PATTERNS) throw new AllowlistError(key, `has more than ${MOST_PATTERNS} patterns`);
  return patterns.map((pattern: unknown, index) => compile(pattern, `${key}[${index}]`, flags));
}

function compile(pattern: unknown, key: string, flags: number): RE2JS {
  if (typeof pattern !== 'string') throw new AllowlistError(key, 'must be a regular expression in a string');
  if (pattern.length > LONGEST_PATTERN) {
    throw new AllowlistError(key, `is longer than ${LONGEST_PATTERN} characters`);
  }
  try {
    return RE2JS.compile(pattern, flags);
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new AllowlistError(key, `is no regular expression of RE2 syntax: ${detail}`, { cause });
  }
}
