/** The exit status of this process, which also tells of output that nobody got. */
import { BoxkiteError } from '@boxkite/protocol';
import { reason } from './copy/local-errors.ts';
import { EXIT } from './exit-status.ts';
import { LostOutputError } from './file-output.ts';
import type { CommandIo } from './io.ts';
import { describeError } from './report-error.ts';

/** What a command that ended with `status` ends this process with. Of a reader that has gone only the status tells. */
export async function endStatus(io: CommandIo, status: number): Promise<number> {
  const failure = await io.written();
  if (failure === null) return status;
  if (!(failure instanceof LostOutputError)) return EXIT.brokenPipe;
  const error = new BoxkiteError('io_error', `standard output can't be written: ${reason(failure.cause)}`, {
    hint: 'Make room where it goes, or send it somewhere else.',
    cause: failure,
  });
  io.stderr().write(describeError(error));
  return EXIT.fault;
}
