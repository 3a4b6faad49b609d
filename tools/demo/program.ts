/** The file that Python runs for one problem; pure. */
import type { Problem } from './problems.ts';

/** A problem's program and the line by which it says that its check came to the end. */
export interface Program {
  readonly taskId: string;
  readonly source: Uint8Array;
  readonly passedLine: string;
  /** Options of Python, before the file. */
  readonly pythonOptions: readonly string[];
}

/**
 * Options for programs that need the standard library alone: without `site`, because what a machine has put into its
 * own `/usr/local` slows down the bare runs, and a sandbox does not see it.
 */
export const STANDARD_LIBRARY_ALONE: readonly string[] = ['-S'];

/**
 * Builds prompt, solution, test and the call of the check. A line is printed before the check (the first output that
 * is timed) and one with a nonce after it, so that a solution which ends Python early with status 0 does not count as
 * passed.
 */
export function buildProgram(problem: Problem, nonce: string, pythonOptions: readonly string[] = []): Program {
  const passedLine = `boxkite-passed-${nonce}`;
  const source = [
    problem.prompt + problem.canonical_solution,
    problem.test,
    "print('boxkite-started', flush=True)",
    `check(${problem.entry_point})`,
    `print('\\n${passedLine}', flush=True)`,
    '',
  ].join('\n');
  return { taskId: problem.task_id, source: new TextEncoder().encode(source), passedLine, pythonOptions };
}

/** Whether this output, with this exit code, is that of a program whose check passed. */
export function hasPassed(program: Program, exitCode: number | null, stdout: string): boolean {
  return exitCode === 0 && stdout.trimEnd().split('\n').at(-1) === program.passedLine;
}
