/** The options of `boxkite run`, and what they ask for. */

import type { SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { OptionTable, ParsedArguments } from './options.ts';
import { describeOptions, parseOptions } from './options.ts';

/** The table of `boxkite run`. */
export const runOptions = {
  rootfs: { value: 'DIR', help: "a root file system to use instead of the host's programs" },
  copy: { value: 'DIR', help: 'a directory to copy into /workspace' },
  cwd: { value: 'DIR', help: 'where the command starts, inside the sandbox (/workspace)' },
  env: { value: 'NAME=VALUE', help: 'a variable for the command; may be repeated', repeatable: true },
  timeout: { value: 'SECONDS', help: 'kill everything after this time; the exit status is then 124' },
  memory: { value: 'MB', help: 'memory of the command, enforced or refused (1024 where it can be enforced)' },
  pids: { value: 'N', help: 'processes and threads at once (256)' },
  cpus: { value: 'N', help: 'CPU rate in cores, enforced or refused (no limit)' },
  workspace: { value: 'MB', help: 'room for files (1024)' },
  json: { value: null, help: 'print the record as JSON, with the output in `stdout` and `stderr`' },
  help: { value: null, help: 'show this text' },
} as const satisfies OptionTable;

/** What `boxkite run --help` prints. */
export function runHelp(): string {
  return `Usage: boxkite run [OPTIONS] -- COMMAND [ARGUMENT...]

Runs a command in a fresh sandbox and removes the sandbox when it has ended. The command has NO NETWORK, sees none of
your files but a copy of what --copy names, and nothing of your environment but what --env gives it.

Output is live and input is passed on; where both are a terminal, the command gets a terminal.

Options:
${describeOptions(runOptions)}

Exit status: the command's; 128 + N when signal N ended it; 124 after --timeout; 137 when it ran out of memory or was
killed; 126 and 127 when it can't be executed or found; 2 when boxkite refuses what was asked for; 1 at a fault.
With --json standard output has nothing but one JSON object: the record, or \`error\`.
`;
}

/** What a call of `boxkite run` asks for. */
export interface RunRequest {
  readonly spec: SandboxSpec;
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly timeout_ms: number | undefined;
  readonly json: boolean;
}

function mistake(message: string, hint: string): BoxkiteError {
  return new BoxkiteError('invalid_request', message, { hint });
}

/** Reads the arguments after `run`. `null`: help is asked for. Errors: `invalid_request`. */
export function parseRun(args: readonly string[]): RunRequest | null {
  const parsed = parseOptions(runOptions, args, 'run');
  if (parsed.values.has('help')) return null;
  if (parsed.rest.length === 0)
    throw mistake('no command is given', 'Write `boxkite run -- COMMAND`; see `boxkite run --help`.');
  const seconds = numberOf(parsed, 'timeout');
  if (seconds !== undefined && seconds <= 0)
    throw mistake('--timeout is to be above 0', 'Leave it out for no time limit.');
  return {
    spec: {
      rootfs: textOf(parsed, 'rootfs'),
      copy: textOf(parsed, 'copy'),
      memory_mb: wholeOf(parsed, 'memory'),
      pids: wholeOf(parsed, 'pids'),
      cpus: numberOf(parsed, 'cpus'),
      workspace_mb: wholeOf(parsed, 'workspace'),
    },
    argv: parsed.rest,
    cwd: textOf(parsed, 'cwd'),
    env: environmentOf(parsed),
    timeout_ms: seconds === undefined ? undefined : Math.ceil(seconds * 1000),
    json: parsed.values.has('json'),
  };
}

type Name = keyof typeof runOptions;

function textOf(parsed: ParsedArguments, name: Name): string | undefined {
  const [value] = parsed.values.get(name) ?? [];
  if (value === '') throw mistake(`--${name} is empty`, `Give ${runOptions[name].value ?? 'a value'}.`);
  return value;
}

/** Decimal notation only: what `Number` takes beyond it (`0x10`, `1e3`, spaces) is more likely a slip than meant. */
function numberOf(parsed: ParsedArguments, name: Name): number | undefined {
  const text = textOf(parsed, name);
  if (text === undefined) return undefined;
  if (/^\d{1,9}(?:\.\d{1,6})?$/.test(text)) return Number(text);
  throw mistake(`--${name} is to be an unsigned decimal number, not ${text}`, `Write for example --${name} 10.`);
}

function wholeOf(parsed: ParsedArguments, name: Name): number | undefined {
  const value = numberOf(parsed, name);
  if (value === undefined || Number.isInteger(value)) return value;
  throw mistake(`--${name} is to be a whole number, not ${value}`, `Write for example --${name} ${Math.ceil(value)}.`);
}

function environmentOf(parsed: ParsedArguments): Readonly<Record<string, string>> {
  const pairs = (parsed.values.get('env') ?? []).map((pair): [string, string] => {
    const equals = pair.indexOf('=');
    const name = pair.slice(0, equals);
    if (equals > 0 && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return [name, pair.slice(equals + 1)];
    throw mistake(
      `--env ${pair} is not NAME=VALUE`,
      'Write for example --env LANG=C; nothing is taken from your own environment.',
    );
  });
  return Object.fromEntries(pairs);
}
