/** Exit codes as the reference has them. */
import { constants } from 'node:os';
import type { ExecRecord } from '@boxkite/protocol';

const SIGNALS: Readonly<Record<string, number>> = constants.signals;

/** The exit status, or minus the number of the signal that ended the command; `null` where neither is known. */
export function exitCodeOf({ exit_code, signal }: ExecRecord): number | null {
  if (exit_code !== null) return exit_code;
  const number = signal === null ? undefined : SIGNALS[signal];
  return number === undefined ? null : -number;
}
