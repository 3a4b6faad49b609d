/** Chooses the command; each is loaded when it is called. */
import type { Command } from './command.ts';
import { EXIT, exitStatusOf } from './exit-status.ts';
import type { CommandIo } from './io.ts';
import { mistake, nearest } from './options.ts';
import { describeError } from './report-error.ts';
import type { Services } from './services.ts';
import { VERSION } from './version.ts';

const HELP = `Usage: boxkite COMMAND [OPTIONS]

Runs code that an AI agent wrote, so that it can do its work and nothing else.

One command, one sandbox:
  run [OPTIONS] -- COMMAND      run a command in a fresh sandbox, which has no network

Sandboxes that stay:
  create                        make one and print its id
  ls                            list them
  exec ID -- COMMAND            run a command in one
  sh ID                         open a shell in one
  cp SRC DST                    copy files in or out; one side is ID:PATH
  ps [ID]                       what runs
  logs [-f] ID [EXEC]           what an exec wrote
  kill ID EXEC                  end an exec
  top                           what they use, live
  extend ID MINUTES             let one live longer
  stop ID, start ID             end all in one and keep its disk workspace; make it ready again
  rm ID...                      destroy them

The daemon that holds them:
  serve, status, stop           start it, look at it, stop it
  keys create|ls|rm             who may use it from elsewhere
  sidecar                       one sandbox and its own API, without the daemon
  policy check|explain          check a list of commands; say what it makes of a command
  doctor --machine              what this machine can enforce, and what to do about the rest

Options:
  --version   print the version
  --help      show this text; also after a command

ID is a sandbox's id, its label, or a beginning of its id that only one has.
`;

/** A loader for each command. */
const COMMANDS: Readonly<Record<string, (args: readonly string[]) => Promise<Command>>> = {
  run: async () => (await import('./commands/run.ts')).runCommand,
  create: async () => (await import('./commands/create.ts')).createCommand,
  ls: async () => (await import('./commands/ls.ts')).lsCommand,
  exec: async () => (await import('./commands/exec.ts')).execCommand,
  sh: async () => (await import('./commands/sh.ts')).shCommand,
  cp: async () => (await import('./commands/cp.ts')).cpCommand,
  ps: async () => (await import('./commands/ps.ts')).psCommand,
  logs: async () => (await import('./commands/logs.ts')).logsCommand,
  kill: async () => (await import('./commands/kill.ts')).killCommand,
  top: async () => (await import('./commands/top.ts')).topCommand,
  extend: async () => (await import('./commands/lifecycle.ts')).extendCommand,
  start: async () => (await import('./commands/lifecycle.ts')).startCommand,
  stop: async (args) =>
    namesSandbox(args)
      ? (await import('./commands/lifecycle.ts')).stopSandboxCommand
      : (await import('./commands/stop.ts')).stopCommand,
  rm: async () => (await import('./commands/rm.ts')).rmCommand,
  serve: async () => (await import('./commands/serve.ts')).serveCommand,
  status: async () => (await import('./commands/status.ts')).statusCommand,
  keys: async () => (await import('./commands/keys.ts')).keysCommand,
  sidecar: async () => (await import('./commands/sidecar.ts')).sidecarCommand,
  policy: async () => (await import('./commands/policy.ts')).policyCommand,
  doctor: async () => (await import('./commands/doctor.ts')).doctorCommand,
};

/** Options of `boxkite stop` for the daemon that have a value. */
const STOP_VALUES: ReadonlySet<string> = new Set(['--data', '--timeout']);

/** Whether `stop` is about sandboxes: it is about the daemon where no plain word follows. */
function namesSandbox(args: readonly string[]): boolean {
  return args.some((word, index) => !word.startsWith('-') && !STOP_VALUES.has(args[index - 1] ?? ''));
}

/** Runs the command line and returns its exit status. Never rejects. */
export async function runCli(args: readonly string[], io: CommandIo, services: Services): Promise<number> {
  try {
    return await dispatch(args, io, services);
  } catch (error) {
    io.stderr().write(describeError(error));
    return exitStatusOf(error);
  }
}

async function dispatch(args: readonly string[], io: CommandIo, services: Services): Promise<number> {
  const [name, ...rest] = args;
  switch (name) {
    case '--version':
      io.stdout().write(`${VERSION}\n`);
      return EXIT.ok;
    case '--help':
    case '-h':
    case 'help':
      return help(rest, io, services);
    case undefined:
      throw misuse('no command is given');
    default: {
      const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
      if (load === undefined) throw unknown(name);
      const command = await load(rest);
      return command(rest, io, services);
    }
  }
}

/** `boxkite help COMMAND` is `boxkite COMMAND --help`. */
async function help(words: readonly string[], io: CommandIo, services: Services): Promise<number> {
  if (words.length > 0) return dispatch([...words, '--help'], io, services);
  io.stdout().write(HELP);
  return EXIT.ok;
}

function unknown(name: string): Error {
  if (name.startsWith('-')) return misuse(`unknown option ${name}`);
  const near = nearest(Object.keys(COMMANDS), name);
  if (near === undefined) return misuse(`there is no command ${name}`);
  return mistake(`there is no command ${name}`, `Did you mean \`boxkite ${near}\`?`);
}

function misuse(message: string): Error {
  return mistake(message, 'See `boxkite --help`; a program is run by `boxkite run -- PROGRAM`.');
}
