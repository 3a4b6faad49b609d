import { BoxkiteFailure } from '@boxkite/protocol';

/** Exit statuses of boxkite's own making; every other one is the command's. */
export const EXIT = {
  ok: 0,
  /** A fault below boxkite or in it. */
  fault: 1,
  /** What was asked for can't be done. */
  refused: 2,
  notExecutable: 126,
  notFound: 127,
  /** Standard output was closed by its reader: 128 + SIGPIPE. */
  brokenPipe: 141,
} as const;

/** The exit status for an error. 126 and 127 are what a shell says. */
export function exitStatusOf(error: unknown): number {
  if (!(error instanceof BoxkiteFailure)) return EXIT.fault;
  switch (error.code) {
    case 'command_not_found':
      return EXIT.notFound;
    case 'not_executable':
    case 'command_not_allowed':
      return EXIT.notExecutable;
    case 'internal':
    case 'runner_lost':
    case 'daemon_unreachable':
    case 'connection_lost':
    case 'state_unavailable':
    case 'io_error':
      return EXIT.fault;
    default:
      return EXIT.refused;
  }
}
