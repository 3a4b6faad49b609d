/** `boxkite rm`: destroys sandboxes. */
import { createInterface } from 'node:readline/promises';
import type { SandboxSummary } from '@boxkite/protocol';
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { forEachSandbox } from '../each-sandbox.ts';
import { EXIT } from '../exit-status.ts';
import { destroyed, findIds, presentSandboxes } from '../find-sandbox.ts';
import { mistake } from '../options.ts';
import { countText, printable } from '../text.ts';

const options = {
  all: { value: null, help: 'every sandbox; asks first' },
  yes: { value: null, short: 'y', help: "don't ask" },
  ...commonOptions,
} as const;

/** Runs `boxkite rm`. */
export const rmCommand: Command = defineCommand({
  name: 'rm',
  words: [{ name: 'ID', optional: true, repeated: true }],
  about: 'Destroys sandboxes: ends everything in them and removes their files. Prints the id of each that is gone.',
  options,
  examples: [
    ['boxkite rm build', 'the sandbox with the label `build`'],
    ['boxkite rm --all --yes', 'every one, without a question'],
  ],
  run: async (call) => {
    const all = call.options.has('all');
    if (all === call.words.length > 0)
      throw mistake(
        all ? '--all goes with no ID' : 'no ID is given',
        'Write `boxkite rm ID`, or `boxkite rm --all` for every sandbox.',
      );
    const server = await call.server();
    const ids = all ? await confirmed(call, await presentSandboxes(server)) : await findIds(server, call.words);
    if (ids === null) return EXIT.fault;
    return forEachSandbox(call, ids, async (id) => {
      // To destroy is fine however often, so that only a look tells a slip in an id.
      const { state, state_reason } = await server.sandboxes.get(id);
      if (state === 'destroyed') throw destroyed(id, state_reason);
      await server.sandboxes.destroy(id);
      return { id, state: 'destroyed' };
    });
  },
});

/** The ids of all, when a person says yes; `null` when not. */
async function confirmed(
  call: Call<typeof options>,
  present: readonly SandboxSummary[],
): Promise<readonly string[] | null> {
  if (present.length === 0) call.say('there is no sandbox to remove');
  if (present.length === 0 || call.options.has('yes')) return present.map(({ id }) => id);
  const { io } = call;
  if (!io.isTerminal(0) || !io.isTerminal(2)) throw mistake('--all asks first, and there is no terminal', 'Add --yes.');
  const kept = present.filter(({ workspace }) => workspace.kind === 'disk').length;
  const labels = present.flatMap(({ label }) => (label === null ? [] : [printable(label)]));
  const named = labels.length === 0 ? '' : `: ${labels.slice(0, 5).join(', ')}${labels.length > 5 ? ', …' : ''}`;
  const disks = kept === 0 ? '' : ` (${kept} with a disk workspace)`;
  const question = `Remove ${countText(present.length, 'sandbox', 'sandboxes')}${disks}${named}? [y/N] `;
  // The terminal keeps its own line discipline, so that Ctrl-C is the signal that it is everywhere else.
  const reader = createInterface({ input: io.stdin(), output: io.stderr(), terminal: false });
  // The end of the input (Ctrl-D) closes the reader and leaves its question unanswered for ever.
  const closed = new Promise<string>((resolve) => reader.once('close', () => resolve('')));
  try {
    const answer = await Promise.race([reader.question(question, { signal: call.interrupts.signal }), closed]);
    return /^y(?:es)?$/i.test(answer.trim()) ? present.map(({ id }) => id) : null;
  } finally {
    reader.close();
  }
}
