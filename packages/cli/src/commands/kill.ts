/** `boxkite kill`: ends an exec, or sends it a signal. */
import { constants } from 'node:os';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { execsOf, findExec, findSandbox } from '../find-sandbox.ts';
import { mistake, nearest } from '../options.ts';

const killOptions = {
  signal: {
    value: 'SIGNAL',
    short: 's',
    help: "a name or number for the command's process group, instead of ending all",
  },
  ...commonOptions,
} as const;

const definition = defineCommand({
  name: 'kill',
  words: [{ name: 'ID' }, { name: 'EXEC' }],
  about:
    'Ends everything that an exec has started, and waits until nothing of it is alive; or sends its command a signal.',
  options: killOptions,
  examples: [
    ['boxkite kill build 4', 'nothing of the exec 4 is left'],
    ['boxkite kill -s TERM build 4', 'asks its command to end'],
  ],
  run: async (call) => {
    const given = call.options.text('signal');
    const signal = given === undefined ? undefined : signalName(given);
    const [word = '', exec = ''] = call.words;
    const execs = execsOf(await findSandbox(await call.server(), word));
    const { exec_id } = await findExec(execs, exec);
    if (signal === undefined) await execs.kill(exec_id);
    else await execs.signal(exec_id, signal);
    if (call.json) call.printJson(await execs.get(exec_id));
    return EXIT.ok;
  },
});

/** Runs `boxkite kill`. The signal may be written as of kill(1) too: `-9`, `-TERM`. */
export const killCommand: Command = (args, io, services) =>
  definition(
    args.map((word) => (/^-(?:\d+|(?:SIG)?[A-Z][A-Z\d+]*)$/.test(word) ? `-s${word.slice(1)}` : word)),
    io,
    services,
  );

const MAX_SIGNAL = 64;

/** `TERM`, `sigterm` and `15` as `SIGTERM`. */
function signalName(given: string): string | number {
  if (/^\d+$/.test(given)) {
    const number = Number(given);
    if (number >= 1 && number <= MAX_SIGNAL) return number;
    throw mistake(`there is no signal ${given}`, `Give a name, or a number from 1 to ${MAX_SIGNAL}.`);
  }
  const upper = given.toUpperCase();
  const name = upper.startsWith('SIG') ? upper : `SIG${upper}`;
  if (Object.hasOwn(constants.signals, name)) return name;
  const near = nearest(Object.keys(constants.signals), name);
  throw mistake(
    `there is no signal ${given}`,
    near === undefined ? 'Write for example -s TERM.' : `Did you mean ${near}?`,
  );
}
