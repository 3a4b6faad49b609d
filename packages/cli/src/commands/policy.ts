/** `boxkite policy`: check the list of what may run in a sandbox, and ask it about a command. */
import type { CommandAllowlist } from '@boxkite/policy';
import { ALLOWED_COMMANDS_VARIABLE, allowlistText, deploymentText, parseList } from '../allowed-commands.ts';
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import type { OptionTable } from '../options.ts';
import { mistake } from '../options.ts';
import { subcommands } from '../subcommands.ts';
import { printable } from '../text.ts';

const HELP = `Usage: boxkite policy check|explain [OPTIONS]

The list of the commands that a sandbox may run, written in JSON: names of programs, or rules with patterns. It is given
by --allowed-commands to run, create, serve and sidecar; these commands are for writing one.

Commands:
  policy check FILE                   say what is wrong with a list
  policy explain --file F -- COMMAND  say whether the list lets a command run, and why not

Examples:
  boxkite policy check allowed.json
  boxkite policy explain --file allowed.json -- 'grep -rn main src | head'
`;

const check = defineCommand({
  name: 'policy check',
  words: [{ name: 'FILE' }],
  about: 'Reads a list of commands, and says what is wrong with it by line and key.',
  options: commonOptions,
  examples: [['boxkite policy check allowed.json', 'exit status 2 and the line of the first fault, if there is one']],
  run: async (call) => {
    const [file = ''] = call.words;
    const list = await parseList(await allowlistText(file), file);
    const facts = { valid: true, file, enforce: list.enforce, commands: list.programs };
    if (call.json) call.printJson(facts);
    else {
      const count = list.programs.length === 0 ? 'allows nothing' : `allows ${list.programs.map(printable).join(', ')}`;
      call.print(
        `${printable(file)} ${count}; it asks for enforcement by the ${list.enforce === 'kernel' ? 'kernel' : 'text alone'}`,
      );
    }
    return EXIT.ok;
  },
});

const explainOptions = {
  file: { value: 'FILE', help: `the list ($${ALLOWED_COMMANDS_VARIABLE})` },
  ...commonOptions,
} as const satisfies OptionTable;

const explain = defineCommand({
  name: 'policy explain',
  program: true,
  about: 'Says whether a list lets a text of shell commands run. Nothing is run, and no file but the list is read.',
  options: explainOptions,
  examples: [
    ["boxkite policy explain --file allowed.json -- 'ls | wc -l'", 'one word is the whole text'],
    ['boxkite policy explain --file allowed.json -- git push', 'several words are joined by blanks'],
  ],
  notes: 'Exit status: 0 when it may run, 1 when it may not, 2 for a wrong list or call.',
  run: async (call) => {
    const { judgeCommand } = await import('@boxkite/policy');
    const list = await listOf(call);
    const text = call.program.join(' ');
    if (text === '') throw mistake('no command is given', 'Write it behind `--`, in quotes.');
    const verdict = judgeCommand(list, text);
    if (call.json) call.printJson({ ...verdict, enforce: list.enforce });
    else {
      call.print(`${verdict.verdict}: ${printable(verdict.reason)}`);
      if (verdict.at !== null) for (const line of pointer(text, verdict.at)) call.print(line);
    }
    return verdict.verdict === 'allow' ? EXIT.ok : EXIT.fault;
  },
});

/** Runs `boxkite policy`. */
export const policyCommand: Command = subcommands(
  'policy',
  { check, explain },
  {
    help: HELP,
    usage: 'Write `boxkite policy check FILE` or `boxkite policy explain --file FILE -- COMMAND`.',
  },
);

async function listOf(call: Call<typeof explainOptions>): Promise<CommandAllowlist> {
  const file = call.options.text('file');
  if (file !== undefined) return parseList(await allowlistText(file), file);
  const text = deploymentText(call.io);
  if (text === undefined) throw mistake('no list is named', `Write --file FILE, or set ${ALLOWED_COMMANDS_VARIABLE}.`);
  return parseList(text, ALLOWED_COMMANDS_VARIABLE);
}

/** The line of the text that a verdict is about, with a mark under the place. */
function pointer(text: string, at: number): string[] {
  const start = text.lastIndexOf('\n', at - 1) + 1;
  const end = text.indexOf('\n', at);
  const line = text.slice(start, end < 0 ? text.length : end);
  return [`  ${printable(line)}`, `  ${' '.repeat(at - start)}^`];
}
