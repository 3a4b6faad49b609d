/** `boxkite ps`: the commands that run in sandboxes. */
import type { SandboxSummary, ServerPort } from '@boxkite/protocol';
import { BoxkiteFailure } from '@boxkite/protocol';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { execsOf, findId, presentSandboxes, shortIdLength } from '../find-sandbox.ts';
import { gather } from '../gather.ts';
import { mapBounded } from '../map-bounded.ts';
import type { SandboxExec } from '../sandbox-table.ts';
import { execColumns, execRow } from '../sandbox-table.ts';
import { tableLines } from '../table.ts';

const IN_FLIGHT = 16;

/** Runs `boxkite ps`. */
export const psCommand: Command = defineCommand({
  name: 'ps',
  words: [{ name: 'ID', optional: true }],
  about: 'Lists the execs that run: of one sandbox, or of all.',
  options: {
    all: { value: null, short: 'a', help: 'with those that have ended, as far as their records are kept' },
    ...commonOptions,
  },
  examples: [
    ['boxkite ps', 'everything that runs'],
    ['boxkite ps --all build', 'what ran in one sandbox, and how it ended'],
  ],
  run: async (call) => {
    const server = await call.server();
    const all = call.options.has('all');
    const [word] = call.words;
    const ids = word === undefined ? await busy(server, all) : [await findId(server, word)];
    const lists = await mapBounded(ids, IN_FLIGHT, (id) => execsIn(server, id, word !== undefined));
    const shown = lists.flat().filter(({ state }) => all || state !== 'ended');
    if (call.json) call.printJson(shown);
    else if (shown.length === 0) call.say(all ? 'there is no record of an exec' : 'no exec runs');
    else {
      const { width } = call;
      const length = width === null ? Number.POSITIVE_INFINITY : shortIdLength(shown.map((exec) => exec.sandbox_id));
      const now = Date.now();
      const rows = shown.map((exec) => execRow(exec, length, now));
      call.print(tableLines(execColumns, rows, width, call.paint).join('\n'));
    }
    return EXIT.ok;
  },
});

/** The sandboxes to look into: only what is ready runs anything or has records. */
async function busy(server: ServerPort, all: boolean): Promise<readonly string[]> {
  if (!all) {
    const used = await gather(server.usage());
    return used.filter(({ usage }) => usage !== null && usage.execs > 0).map(({ id }) => id);
  }
  return (await presentSandboxes(server)).filter(isReady).map(({ id }) => id);
}

function isReady({ state }: SandboxSummary): boolean {
  return state === 'ready';
}

async function execsIn(server: ServerPort, id: string, named: boolean): Promise<readonly SandboxExec[]> {
  try {
    const sandbox = await server.sandboxes.connect(id);
    const execs = await execsOf(sandbox).list();
    return execs.map((exec) => ({ sandbox_id: id, ...exec }));
  } catch (error) {
    // One of many that has just ended runs nothing.
    if (!named && error instanceof BoxkiteFailure && GONE.has(error.code)) return [];
    throw error;
  }
}

const GONE: ReadonlySet<string> = new Set(['not_found', 'closing', 'sandbox_not_ready']);
