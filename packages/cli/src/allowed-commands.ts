/** Command allowlists as the command line takes them. */
import { readFile } from 'node:fs/promises';
import type { CommandAllowlist } from '@boxkite/policy';
import { type AllowedCommands, BoxkiteError } from '@boxkite/protocol';
import type { CommandIo } from './io.ts';

/** The list of a whole deployment. */
export const ALLOWED_COMMANDS_VARIABLE = 'SANDBOX_ALLOWED_COMMANDS';

/** Its text; `undefined` where the variable is blank, which is as good as not set. */
export function deploymentText({ env }: Pick<CommandIo, 'env'>): string | undefined {
  const text = env[ALLOWED_COMMANDS_VARIABLE];
  return text?.trim() === '' ? undefined : text;
}

/** `--allowed-commands` of what makes a sandbox. */
export const allowedCommandsOption = {
  value: 'FILE|JSON',
  help: 'programs that its commands may run; `boxkite policy --help` says more',
} as const;

/** The text of a list, and what messages call it. Errors: `invalid_request`. */
export async function allowlistText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    const reason = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown';
    throw new BoxkiteError('invalid_request', `${file} can't be read (${reason})`, {
      hint: 'Name a file with a list of commands in JSON.',
      cause,
    });
  }
}

/** Errors: `invalid_request`, which names file, line and key. */
export async function parseList(text: string, file: string): Promise<CommandAllowlist> {
  const { AllowlistError, parseAllowlist } = await import('@boxkite/policy');
  try {
    return parseAllowlist(text, file);
  } catch (error) {
    if (!(error instanceof AllowlistError)) throw error;
    throw new BoxkiteError('invalid_request', error.message, {
      hint: 'Nothing of a wrong list is used. Correct it; docs/reference/policy/commands.md says what a rule may hold.',
      details: { file: error.file, line: error.line, key: error.key },
      cause: error,
    });
  }
}

/** What the option asks for: JSON on the command line, or a file of it. Errors: `invalid_request`. */
export async function allowedCommands(given: string | undefined): Promise<AllowedCommands | undefined> {
  if (given === undefined) return undefined;
  const isJson = /^\s*[[{]/.test(given);
  const text = isJson ? given : await allowlistText(given);
  await parseList(text, isJson ? '--allowed-commands' : given);
  // It has just been checked whole.
  return JSON.parse(text) as AllowedCommands;
}
