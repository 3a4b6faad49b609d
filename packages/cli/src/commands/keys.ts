/** `boxkite keys`: who may use the daemon from elsewhere. */
import type { ApiKey, ApiKeysPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { shortIdLength } from '../find-sandbox.ts';
import { mistake } from '../options.ts';
import { idText, labelCell } from '../sandbox-table.ts';
import { subcommands } from '../subcommands.ts';
import type { Column } from '../table.ts';
import { tableLines } from '../table.ts';
import { durationText, printable } from '../text.ts';

const HELP = `Usage: boxkite keys create|ls|rm [OPTIONS]

Keys for the HTTP API of the daemon. Only an administrator's key can make and remove keys; the one that this program
uses on its own machine is.

Commands:
  keys create NAME   make a key, which is shown once
  keys ls            list the keys
  keys rm ID...      what uses them is refused from now on

Examples:
  export BOXKITE_API_KEY=$(boxkite keys create laptop)
  boxkite keys create ci --account ci   # sees no sandbox but those of the account \`ci\`
`;

const create = defineCommand({
  name: 'keys create',
  words: [{ name: 'NAME' }],
  about: 'Makes a key and prints it. It is shown this once: the daemon keeps nothing that it could be read from.',
  options: {
    account: { value: 'NAME', help: "whose sandboxes it sees and makes (the caller's)" },
    admin: { value: null, help: 'sees all accounts and manages keys' },
    ...commonOptions,
  },
  examples: [['boxkite keys create ci --account ci', 'for the sandboxes of the account `ci` alone']],
  run: async (call) => {
    const [name = ''] = call.words;
    const { keys } = await call.server();
    const account = call.options.text('account');
    const made = await keys.create({
      name,
      ...(account === undefined ? {} : { account }),
      ...(call.options.has('admin') ? { admin: true } : {}),
    });
    const id = printable(made.id);
    const lost = `the key ${id} was made and nobody got it; remove it by \`boxkite keys rm ${id}\``;
    const printed = await call.printOnce(printable(made.key), made, lost);
    if (printed && !call.json) {
      const rights = made.admin ? ', an administrator' : '';
      call.say(`this is shown once: key ${id} of the account ${printable(made.account)}${rights}`);
    }
    return EXIT.ok;
  },
});

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'NAME', shrinkTo: 8 },
  { title: 'ACCOUNT', shrinkTo: 8 },
  { title: 'ADMIN' },
  { title: 'KEY' },
  { title: 'AGE', align: 'right' },
  { title: 'USED', align: 'right' },
];

const list = defineCommand({
  name: 'keys ls',
  about: 'Lists the keys, each with its first characters.',
  options: commonOptions,
  examples: [['boxkite keys ls --json', 'an array for programs']],
  run: async (call) => {
    const keys = await (await call.server()).keys.list();
    if (call.json) call.printJson(keys);
    else if (keys.length === 0) call.say('there is no key');
    else {
      const { width } = call;
      const length = width === null ? Number.POSITIVE_INFINITY : shortIdLength(keys.map(({ id }) => id));
      const rows = keys.map((key) => row(key, length));
      call.print(tableLines(columns, rows, width, call.paint).join('\n'));
    }
    return EXIT.ok;
  },
});

function row(key: ApiKey, idLength: number): readonly ReturnType<typeof labelCell>[] {
  const since = (time: string): string => durationText(Date.now() - Date.parse(time));
  return [
    idText(key.id, idLength),
    labelCell(key.name),
    labelCell(key.account),
    key.admin ? 'yes' : 'no',
    `${printable(key.prefix)}…`,
    since(key.created_at),
    key.last_used_at === null ? { text: 'never', tone: 'dim' } : `${since(key.last_used_at)} ago`,
  ];
}

const remove = defineCommand({
  name: 'keys rm',
  words: [{ name: 'ID', repeated: true }],
  about: 'Removes keys, by id, a beginning of it that only one has, or name. Prints the id of each.',
  options: commonOptions,
  examples: [['boxkite keys rm laptop', 'the key with this name']],
  run: async (call) => {
    const { keys } = await call.server();
    const ids = await findKeys(keys, call.words);
    for (const id of ids) {
      await keys.remove(id);
      if (!call.json) call.print(printable(id));
    }
    if (call.json) call.printJson(ids.map((id) => ({ id, removed: true })));
    return EXIT.ok;
  },
});

async function findKeys(port: ApiKeysPort, words: readonly string[]): Promise<readonly string[]> {
  const all = await port.list();
  const choose = (word: string): string => {
    const exact = all.filter(({ id, name }) => id === word || name === word);
    const found = exact.length > 0 ? exact : all.filter(({ id }) => id.startsWith(word));
    const [first, second] = found;
    if (first === undefined)
      throw new BoxkiteError('not_found', `there is no key ${word}`, { hint: 'See `boxkite keys ls`.' });
    if (second === undefined) return first.id;
    throw mistake(`${word} means more than one key: ${found.map(({ id }) => id).join(', ')}`, 'Give the id.');
  };
  return [...new Set(words.map(choose))];
}

/** Runs `boxkite keys`. */
export const keysCommand: Command = subcommands(
  'keys',
  { create, ls: list, rm: remove },
  {
    help: HELP,
    usage: 'Write `boxkite keys create NAME`, `boxkite keys ls` or `boxkite keys rm ID`.',
  },
);
