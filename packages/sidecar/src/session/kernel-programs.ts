/** The kernel layer of the command allowlist, as far as sessions need it. */
import { BoxkiteError, type Effective } from '@boxkite/protocol';

/** What the kernel lets commands execute, by name; `null`: all that the root file system has. */
export type KernelPrograms = readonly string[] | null;

/** Errors: `isolation_unavailable` where a list that the kernel is to enforce is not what was measured. */
export function mustBeEnforced(programs: KernelPrograms, { programs: { enforced } }: Effective): void {
  if (programs === null || enforced === 'kernel') return;
  throw new BoxkiteError('isolation_unavailable', 'the kernel does not hold commands to the list of programs', {
    hint: 'Choose `enforce: "text"` where the judgement of the text is enough.',
    details: { layer: 'programs' },
  });
}
