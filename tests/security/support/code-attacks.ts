/** Attacks on a list of programs: `packages/testing/inside/code-attacks.py`, and what a list that they are made for holds. */
import { existsSync } from 'node:fs';
import { BoxkiteError } from '@boxkite/protocol';
import { insideSource, pythonJson, type TestSandbox } from '@boxkite/testing';

/** The program that tries them. */
export const SOURCE = insideSource('code-attacks.py');

/** Groups of ways; each is tried by itself. */
export const ATTACKS = [
  'dropped',
  'loader',
  'scripts',
  'memory',
  'file_without_name',
  'starts',
  'maps',
  'libraries',
  'helpers',
  'tricks',
] as const;

/** What they take to be listed. */
export const PROGRAMS = [
  'python3',
  'ls',
  'find',
  'tar',
  'cat',
  'mkdir',
  ...(existsSync('/usr/bin/git') ? ['git'] : []),
];

/** Groups that no list decides: without one they are refused too. */
export const REFUSED_ANYWAY = new Set(['tricks']);

/** Single ways of that kind. */
export const NEVER = new Set([
  // Sealed for ever.
  'memfd_create, MFD_NOEXEC_SEAL',
  // Kernels before 6.3 do not know the flag.
  ...(existsSync('/proc/sys/vm/memfd_noexec') ? [] : ['memfd_create, MFD_EXEC']),
  // Not dumpable.
  "PID 1's program",
]);

/** What became of each way; `RAN` where something unlisted was executed or mapped as code. */
export type Ways = Readonly<Record<string, string>>;

/** Tries one group. */
export const attack = (sandbox: TestSandbox, name: string): Promise<Ways> =>
  pythonJson<Ways>(sandbox, SOURCE, { args: [name], cwd: '/workspace' });

/** The ways that succeeded. */
export function ran(ways: Ways): string[] {
  return Object.entries(ways).flatMap(([way, outcome]) => (outcome === 'RAN' ? [way] : []));
}

/** The code of a failure. */
export const codeOf = (error: unknown): string => (error instanceof BoxkiteError ? error.code : String(error));

/** The error of an attempt that must be refused. */
export async function refusal(attempt: Promise<unknown>): Promise<BoxkiteError> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof BoxkiteError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}
