/** `boxkite sh`: a shell in a sandbox. */
import { BoxkiteFailure } from '@boxkite/protocol';
import { AttachedCommand, attachedByDefault } from '../attached-command.ts';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { findSandbox } from '../find-sandbox.ts';

/** One call instead of a look for bash and then another; the prompt names the sandbox, which has no host name of its own. */
const SHELL = `if command -v bash >/dev/null 2>&1
then PS1="$1:\\w\\$ " exec bash
else PS1="$1\\$ " exec sh
fi`;
const SHOWN_ID = 8;

/** Runs `boxkite sh`. */
export const shCommand: Command = defineCommand({
  name: 'sh',
  words: [{ name: 'ID' }],
  about: `Opens a shell in a sandbox: bash where there is one, else sh. On a terminal it follows the size of the window, and the
terminal is left as it was. Without a terminal the shell reads its commands from standard input.`,
  options: {
    cwd: { value: 'DIR', help: 'where the shell starts, inside the sandbox (/workspace)' },
    env: { value: 'NAME=VALUE', help: 'a variable for the shell; may be repeated', repeatable: true },
    help: commonOptions.help,
  },
  examples: [
    ['boxkite sh build', 'in the sandbox with the label `build`'],
    ['boxkite sh 3f2a < script.sh', 'runs a script'],
  ],
  notes: "Exit status: the shell's. Files stay in the sandbox when the shell has ended; its processes don't.",
  run: async (call) => {
    const { interrupts, options, io } = call;
    const sandbox = await findSandbox(await call.server(), call.words[0] ?? '', interrupts.signal);
    const request = {
      argv: ['/bin/sh', '-c', SHELL, 'sh', sandbox.id.slice(0, SHOWN_ID)],
      cwd: options.text('cwd'),
      env: options.variables('env'),
      timeout_ms: undefined,
      ...attachedByDefault(io, false),
    };
    try {
      return await new AttachedCommand(request, io, interrupts).run(sandbox);
    } catch (error) {
      if (!(error instanceof BoxkiteFailure) || error.code !== 'command_not_allowed') throw error;
      // A list may let a bare shell on a terminal through, never the script that looks for the best one.
      return await new AttachedCommand({ ...request, argv: ['/bin/sh'] }, io, interrupts).run(sandbox);
    }
  },
});
