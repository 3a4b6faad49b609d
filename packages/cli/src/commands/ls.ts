/** `boxkite ls`: the sandboxes that there are. */
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { allSandboxes, presentSandboxes, shortIdLength } from '../find-sandbox.ts';
import { sandboxColumns, sandboxRow } from '../sandbox-table.ts';
import { tableLines } from '../table.ts';
import { printable } from '../text.ts';

/** Runs `boxkite ls`. */
export const lsCommand: Command = defineCommand({
  name: 'ls',
  about: `Lists the sandboxes, oldest first. A terminal shows as much of an id as tells them apart, and commands take that much;
a pipe gets whole ids.`,
  options: {
    all: { value: null, short: 'a', help: 'with those that are destroyed, as far as the daemon remembers them' },
    quiet: { value: null, short: 'q', help: 'print whole ids alone' },
    ...commonOptions,
  },
  examples: [
    ['boxkite ls', 'what is there'],
    ['boxkite ls --all --json', 'an array for programs, with the ended ones'],
    ['boxkite rm $(boxkite ls -q)', 'remove all'],
  ],
  run: async (call) => {
    const list = call.options.has('all') ? allSandboxes : presentSandboxes;
    const shown = await list(await call.server());
    if (call.json) call.printJson(shown);
    else if (call.options.has('quiet')) for (const { id } of shown) call.print(printable(id));
    else if (shown.length === 0) call.say('there is no sandbox; `boxkite create` makes one');
    else {
      const { width } = call;
      const length = width === null ? Number.POSITIVE_INFINITY : shortIdLength(shown.map(({ id }) => id));
      const now = Date.now();
      const rows = shown.map((sandbox) => sandboxRow(sandbox, length, now));
      call.print(tableLines(sandboxColumns, rows, width, call.paint).join('\n'));
    }
    return EXIT.ok;
  },
});
