/** Runs one of the attacks of `packages/testing/inside/attacks.py` in a sandbox. */
import { type Executor, insideSource, type ProgramOptions, pythonJson } from '@boxkite/testing';

/** What an attack says of itself. */
export interface AttackResult {
  /** Whether it got something that a sandbox must not give. */
  readonly reached: boolean;
  readonly detail: unknown;
}

const SOURCE = insideSource('attacks.py');

/** Tries one attack and returns what it reached. */
export async function attack(
  sandbox: Executor,
  name: string,
  args: readonly string[] = [],
  options: ProgramOptions = {},
): Promise<AttackResult> {
  return pythonJson<AttackResult>(sandbox, SOURCE, { ...options, args: [name, ...args] });
}

/** Argument vector of an attack, for tests that keep it running. */
export function attackCommand(name: string, args: readonly string[] = []): readonly string[] {
  return ['/usr/bin/python3', '-I', '-S', '-c', SOURCE, name, ...args];
}
