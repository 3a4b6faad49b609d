/** Command allowlists as a session gets them: as JSON, from its deployment, its sandbox and its use. */
import { AllowlistError, type CommandAllowlist, parseAllowlist } from '@boxkite/policy';
import { BoxkiteError } from '@boxkite/protocol';
import type { KernelPrograms } from './kernel-programs.ts';

/** The lists of a sandbox, as JSON. A command needs all of them. */
export interface FixedLists {
  /** Of the deployment. */
  readonly deployment: string | null;
  /** Of the sandbox, for as long as it lives. */
  readonly sandbox: string | null;
}

/** Name by which operators know their list. */
export const DEPLOYMENT_LIST = 'SANDBOX_ALLOWED_COMMANDS';
/** Name by which requests know theirs. */
export const SANDBOX_LIST = 'sandbox_allowed_commands';

/** The text of a list that came as JSON; `null` for none. */
export function listText(list: unknown): string | null {
  return list === undefined || list === null ? null : JSON.stringify(list);
}

/** The list that a text is; `null` is none. Errors: `invalid_request`, which names line and key. */
export function readList(text: string | null, name: string): CommandAllowlist | null {
  if (text === null) return null;
  try {
    return parseAllowlist(text, name);
  } catch (error) {
    if (!(error instanceof AllowlistError)) throw error;
    throw new BoxkiteError('invalid_request', error.message, {
      hint: 'Correct the list, of which nothing is used; `boxkite policy check FILE` says what is wrong with one.',
      details: { field: name, key: error.key, line: error.line },
      cause: error,
    });
  }
}

/** Those that there are. Errors: `invalid_request`. */
export function readLists({ deployment, sandbox }: FixedLists): readonly CommandAllowlist[] {
  return [readList(deployment, DEPLOYMENT_LIST), readList(sandbox, SANDBOX_LIST)].filter((list) => list !== null);
}

/** What is on all lists that the kernel is to enforce; `null` where there is none. */
export function kernelPrograms(lists: readonly CommandAllowlist[]): KernelPrograms {
  const [first, ...others] = lists.filter(({ enforce }) => enforce === 'kernel').map(({ programs }) => programs);
  if (first === undefined) return null;
  return first.filter((program) => others.every((programs) => programs.includes(program)));
}

/** What the kernel is told of a sandbox with these lists. Errors: `invalid_request`. */
export function programsOf(lists: FixedLists): KernelPrograms {
  return kernelPrograms(readLists(lists));
}
