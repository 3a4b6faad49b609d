/** Chooses the command; each is loaded when it is called. */
import { BoxkiteError, type BoxkiteFailure } from '@boxkite/protocol';
import { EXIT, exitStatusOf } from './exit-status.ts';
import type { CommandIo } from './io.ts';
import { describeError } from './report-error.ts';
import { VERSION } from './version.ts';

const HELP = `Usage: boxkite COMMAND [OPTIONS]

Runs code that an AI agent wrote, so that it can do its work and nothing else.

Commands:
  run [OPTIONS] -- COMMAND   run a command in a fresh sandbox, which has no network
  doctor --machine           what this machine can enforce, and what to do about the rest

Options:
  --version   print the version
  --help      show this text; also after a command
`;

/** Runs the command line and returns its exit status. Never rejects. */
export async function runCli(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    return await dispatch(args, io);
  } catch (error) {
    io.stderr().write(describeError(error));
    return exitStatusOf(error);
  }
}

async function dispatch(args: readonly string[], io: CommandIo): Promise<number> {
  const [command, ...rest] = args;
  switch (command) {
    case 'run': {
      const { runCommand } = await import('./commands/run.ts');
      return runCommand(rest, io);
    }
    case 'doctor': {
      const { doctorCommand } = await import('./commands/doctor.ts');
      return doctorCommand(rest, io);
    }
    case '--version':
      io.stdout().write(`${VERSION}\n`);
      return EXIT.ok;
    case '--help':
    case '-h':
    case 'help':
      io.stdout().write(HELP);
      return EXIT.ok;
    case undefined:
      throw misuse('no command is given');
    default:
      throw misuse(command.startsWith('-') ? `unknown option ${command}` : `there is no command ${command}`);
  }
}

function misuse(message: string): BoxkiteFailure {
  return new BoxkiteError('invalid_request', message, {
    hint: 'See `boxkite --help`; a program is run by `boxkite run -- PROGRAM`.',
  });
}
