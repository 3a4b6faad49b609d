/** The command allowlists of sandboxes that end with this process. */
import type { ExecRequest, SandboxSpec } from '@boxkite/protocol';
import type { ProgramPolicy } from '@boxkite/runner-client';

/** Errors: `command_not_allowed`. */
export type Admit = (request: ExecRequest) => void;

/** What the lists of a sandbox come to. */
export interface PrivateGate {
  readonly admit: Admit;
  /** What the kernel is to let its commands execute; `undefined`: all. */
  readonly programs: ProgramPolicy | undefined;
}

/** `null` where there is no list, as most often: what judges commands is not even loaded. Errors: `invalid_request`. */
export async function privateGate(
  deployment: string | undefined,
  { sandbox_allowed_commands }: Pick<SandboxSpec, 'sandbox_allowed_commands'>,
): Promise<PrivateGate | null> {
  if (deployment === undefined && sandbox_allowed_commands === undefined) return null;
  const { CommandGate, listText, programsOf } = await import('@boxkite/sidecar/app');
  const lists = { deployment: deployment ?? null, sandbox: listText(sandbox_allowed_commands) };
  const programs = programsOf(lists);
  // It has one use alone.
  const done = (): Promise<void> => Promise.resolve();
  const gate = new CommandGate({ lists, used: null, kernel: done, save: done });
  return { admit: (request) => gate.admit(request), programs: programs === null ? undefined : { programs } };
}
