/** `boxkite start`, `boxkite stop ID` and `boxkite extend`. */
import { maxLifetimeMinutes } from '@boxkite/protocol';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { forEachSandbox } from '../each-sandbox.ts';
import { EXIT } from '../exit-status.ts';
import { findId, findIds } from '../find-sandbox.ts';
import { decimal, wholeNumber } from '../option-values.ts';
import { mistake } from '../options.ts';
import { durationText, printable } from '../text.ts';

/** Runs `boxkite start`. */
export const startCommand: Command = defineCommand({
  name: 'start',
  words: [{ name: 'ID', repeated: true }],
  about: `Makes sandboxes with a disk workspace ready again that were stopped or have lost their runner: with their files, and
with nothing running. Prints the id of each.`,
  options: commonOptions,
  examples: [['boxkite start build', 'then `boxkite exec build -- …` works again']],
  run: async (call) => {
    const { signal } = call.interrupts;
    const { sandboxes } = await call.server();
    const ids = await findIds(await call.server(), call.words, signal);
    return forEachSandbox(call, ids, async (id) => {
      await sandboxes.start(id, signal);
      return sandboxes.get(id);
    });
  },
});

/** Runs `boxkite stop` with an id; without one it is the daemon's. */
export const stopSandboxCommand: Command = defineCommand({
  name: 'stop',
  words: [{ name: 'ID', repeated: true }],
  about: `Ends everything in sandboxes with a disk workspace and keeps their files, until \`boxkite start\` or \`boxkite rm\`. Prints
the id of each. Without an ID it stops the daemon.`,
  options: commonOptions,
  examples: [['boxkite stop build', 'its files stay, its memory is free']],
  run: async (call) => {
    const { sandboxes } = await call.server();
    const ids = await findIds(await call.server(), call.words);
    return forEachSandbox(call, ids, (id) => sandboxes.stop(id));
  },
});

/** Runs `boxkite extend`. */
export const extendCommand: Command = defineCommand({
  name: 'extend',
  words: [{ name: 'ID' }, { name: 'MINUTES' }],
  about: 'Lets a sandbox live for so many minutes from now on, and prints when it will end by itself.',
  options: commonOptions,
  examples: [['boxkite extend build 120', 'for two hours from now']],
  run: async (call) => {
    const [word = '', given = ''] = call.words;
    const minutes = wholeNumber('MINUTES', decimal('MINUTES', given));
    if (minutes < 1 || minutes > maxLifetimeMinutes)
      throw mistake(`MINUTES is to be 1 to ${maxLifetimeMinutes}, not ${given}`, 'Write for example 60.');
    const server = await call.server();
    const sandbox = await server.sandboxes.extend(await findId(server, word), minutes);
    if (call.json) call.printJson(sandbox);
    else {
      call.print(printable(sandbox.expires_at));
      call.say(`${printable(sandbox.id)} ends in ${durationText(Date.parse(sandbox.expires_at) - Date.now())}`);
    }
    return EXIT.ok;
  },
});
