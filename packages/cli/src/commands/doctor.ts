/** `boxkite doctor`: what this machine can enforce. */
import { BoxkiteError } from '@boxkite/protocol';
import { EXIT } from '../exit-status.ts';
import type { CommandIo } from '../io.ts';
import type { OptionTable } from '../options.ts';
import { describeOptions, parseOptions } from '../options.ts';

const doctorOptions = {
  machine: { value: null, help: 'examine this machine' },
  json: { value: null, help: 'print the findings as JSON' },
  help: { value: null, help: 'show this text' },
} as const satisfies OptionTable;

const HELP = `Usage: boxkite doctor --machine [--json]

Tries on this machine, as you, what keeps a sandbox apart, and says what is missing and how to get it.

Options:
${describeOptions(doctorOptions)}

Exit status: 0 when sandboxes work here, 1 when they don't, 2 for a wrong call.
`;

/** Runs `boxkite doctor` with the words after it and returns the exit status. */
export async function doctorCommand(args: readonly string[], io: CommandIo): Promise<number> {
  const { values, rest } = parseOptions(doctorOptions, args, 'doctor');
  if (values.has('help')) {
    io.stdout().write(HELP);
    return EXIT.ok;
  }
  if (rest.length > 0)
    throw new BoxkiteError('invalid_request', `doctor takes no ${rest[0]}`, {
      hint: 'Write `boxkite doctor --machine`.',
    });
  if (!values.has('machine'))
    throw new BoxkiteError('invalid_request', 'nothing to examine is named', {
      hint: 'Write `boxkite doctor --machine`.',
    });
  const { assertLinux, examineMachine, formatReport } = await import('@boxkite/local');
  assertLinux();
  const report = await examineMachine({ runtimeDirectory: io.env['XDG_RUNTIME_DIR'] });
  io.stdout().write(values.has('json') ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
  return report.sandboxes ? EXIT.ok : EXIT.fault;
}
