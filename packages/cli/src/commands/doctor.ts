/** `boxkite doctor`: what this machine can enforce. */
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { mistake } from '../options.ts';

/** Runs `boxkite doctor` with the words after it and returns the exit status. */
export const doctorCommand: Command = defineCommand({
  name: 'doctor',
  about: 'Tries on this machine, as you, what keeps a sandbox apart, and says what is missing and how to get it.',
  options: { machine: { value: null, help: 'examine this machine' }, ...commonOptions },
  examples: [['boxkite doctor --machine', 'what works here, and what to do about the rest']],
  notes: "Exit status: 0 when sandboxes work here, 1 when they don't, 2 for a wrong call.",
  run: async (call) => {
    if (!call.options.has('machine')) throw mistake('nothing to examine is named', 'Write `boxkite doctor --machine`.');
    const { assertLinux, examineMachine, formatReport } = await import('@boxkite/local');
    assertLinux();
    const report = await examineMachine({ runtimeDirectory: call.io.env['XDG_RUNTIME_DIR'] });
    call.io.stdout().write(call.json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
    return report.sandboxes ? EXIT.ok : EXIT.fault;
  },
});
