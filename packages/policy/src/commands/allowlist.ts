import { AllowlistError } from './allowlist-error.ts';
import { CommandRules } from './rules.ts';

/** Who enforces a list: the kernel beneath the text, or the text alone. */
export type Enforcement = 'kernel' | 'text';

/** A rule of a list: the name of a program, or a program with patterns for its argument text. */
export type CommandRule =
  | string
  | {
      readonly command: string;
      /** At least one must match the whole argument text. */
      readonly args_allow?: readonly string[];
      /** None may be found anywhere in the argument text. */
      readonly args_deny?: readonly string[];
    };

/** The configuration of an allowlist; a list of rules alone means `enforce: "kernel"`. */
export type CommandAllowlistConfig =
  | readonly CommandRule[]
  | { readonly commands: readonly CommandRule[]; readonly enforce?: Enforcement };

const KEYS = new Set(['commands', 'enforce']);
/** Where an agent can write, so that a file may become another one after it has been listed. */
const WRITABLE = ['/workspace', '/mnt/user-data', '/mnt/skills', '/tmp', '/var/tmp', '/dev/shm', '/proc', '/run'];
/** One file with many programs: whoever may execute it may execute them all. */
const MULTI_CALL = new Set(['busybox', 'toybox', 'coreutils', 'uutils', 'sbase-box', 'ubase-box']);

/** A list of commands that has been checked. Make it once and share it. */
export class CommandAllowlist {
  readonly enforce: Enforcement;
  /** For this package alone. */
  readonly rules: CommandRules;

  /** Use `compileAllowlist`. */
  constructor(rules: CommandRules, enforce: Enforcement) {
    this.rules = rules;
    this.enforce = enforce;
  }

  /** Names of the listed programs, in the order of the list. */
  get programs(): readonly string[] {
    return this.rules.programs;
  }

  /** Whether a rule without patterns lists the program: what a route that starts it for other work needs. */
  listsWithoutPatterns(program: string): boolean {
    return this.rules.withoutPatterns(program);
  }
}

/**
 * Checks a configuration once.
 * @throws AllowlistError with the key, for the whole configuration if any part of it is wrong: an unknown key, a pattern that
 *   RE2 doesn't know, a blank name. With `enforce: "kernel"` also for a file that an agent may replace and for a
 *   multi-call binary, since the kernel could not tell what they run.
 */
export function compileAllowlist(config: unknown): CommandAllowlist {
  if (Array.isArray(config)) return checked(config, 'kernel');
  if (typeof config !== 'object' || config === null) {
    throw new AllowlistError('allowlist', 'must be a list of programs or an object with `commands`');
  }
  const unknown = Object.keys(config).find((name) => !KEYS.has(name));
  if (unknown !== undefined) throw new AllowlistError(unknown, `is no key of an allowlist: ${[...KEYS].join(', ')}`);
  const { commands, enforce = 'kernel' } = config as Record<string, unknown>;
  if (enforce !== 'kernel' && enforce !== 'text') throw new AllowlistError('enforce', 'must be "kernel" or "text"');
  return checked(commands, enforce);
}

function checked(commands: unknown, enforce: Enforcement): CommandAllowlist {
  const rules = new CommandRules(commands);
  if (enforce === 'kernel') {
    for (const [index, program] of rules.names.entries()) {
      const problem = unenforceable(program);
      if (problem === null) continue;
      throw new AllowlistError(`commands[${index}]`, `${problem}: list another program, or choose enforce: "text"`);
    }
  }
  return new CommandAllowlist(rules, enforce);
}

function unenforceable(program: string): string | null {
  const name = program.slice(program.lastIndexOf('/') + 1);
  if (MULTI_CALL.has(name)) return `names ${JSON.stringify(program)}, one file that is many programs`;
  if (!program.includes('/')) return null;
  const path = `/${program
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')}`;
  const replaceable =
    !program.startsWith('/') ||
    path.split('/').includes('..') ||
    WRITABLE.some((root) => `${path}/`.startsWith(`${root}/`));
  return replaceable ? `names ${JSON.stringify(program)}, a file that an agent may replace` : null;
}
