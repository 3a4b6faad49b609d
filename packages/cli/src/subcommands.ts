/** Commands of two words, such as `boxkite keys ls`. */
import type { Command } from './command.ts';
import { EXIT } from './exit-status.ts';
import { mistake, nearest } from './options.ts';

/** The command `name`, whose second word chooses one of `commands`. `usage` is the hint where it chooses none. */
export function subcommands(
  name: string,
  commands: Readonly<Record<string, Command>>,
  texts: { readonly help: string; readonly usage: string },
): Command {
  return async ([verb, ...rest], io, services) => {
    if (verb === undefined) throw mistake(`${name} needs a command`, texts.usage);
    const command = Object.hasOwn(commands, verb) ? commands[verb] : undefined;
    if (command !== undefined) return command(rest, io, services);
    if (verb === '--help' || verb === '-h') {
      io.stdout().write(texts.help);
      return EXIT.ok;
    }
    const near = nearest(Object.keys(commands), verb);
    const hint = near === undefined ? texts.usage : `Did you mean \`${name} ${near}\`?`;
    throw mistake(`${name} has no command ${verb}`, hint);
  };
}
