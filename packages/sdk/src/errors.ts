/** Errors that only the SDK raises; all others are the registry's, re-exported by the entry. */
import { BoxkiteFailure } from '@boxkite/protocol';
import type { ExecResult } from './result.ts';

/** A command did not end with exit status 0 and `check` was asked for. Carries everything that the command left. */
export class CommandFailedError extends BoxkiteFailure {
  override readonly name = 'CommandFailedError';
  override readonly code = 'command_failed';
  override readonly hint = 'Look at `result.stderr`, or leave out `check` to get the result without an error.';
  override readonly retryable = false;
  readonly result: ExecResult;

  constructor(result: ExecResult) {
    super(`the command ${ending(result)}${lastLine(result.stderr)}`, {
      details: { exec_id: result.exec_id, end: result.end, exit_code: result.exit_code, signal: result.signal },
    });
    this.result = result;
  }
}

function ending(result: ExecResult): string {
  switch (result.end) {
    case 'exited':
      return `ended with exit status ${result.exit_code}`;
    case 'signaled':
      return `was ended by ${result.signal ?? 'a signal'}`;
    case 'timed_out':
      return 'reached its time limit and was killed';
    case 'out_of_memory':
      return 'reached its memory limit and was killed';
    case 'killed':
      return 'was killed';
    case 'lost':
      return 'was lost with its runner';
    default:
      return result.end satisfies never;
  }
}

const LINE_SHOWN = 200;

function lastLine(text: string): string {
  const line = text.trimEnd().split('\n').at(-1)?.trim() ?? '';
  return line === '' ? '' : `: ${line.slice(0, LINE_SHOWN)}`;
}
