import { BoxkiteError } from '@boxkite/protocol';

/** Names of Linux signals; the index is the number, which is the same on every architecture that we run on. */
const NAMES: readonly string[] = [
  '',
  'SIGHUP',
  'SIGINT',
  'SIGQUIT',
  'SIGILL',
  'SIGTRAP',
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGKILL',
  'SIGUSR1',
  'SIGSEGV',
  'SIGUSR2',
  'SIGPIPE',
  'SIGALRM',
  'SIGTERM',
  'SIGSTKFLT',
  'SIGCHLD',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
  'SIGTTIN',
  'SIGTTOU',
  'SIGURG',
  'SIGXCPU',
  'SIGXFSZ',
  'SIGVTALRM',
  'SIGPROF',
  'SIGWINCH',
  'SIGIO',
  'SIGPWR',
  'SIGSYS',
];
const LAST_SIGNAL = 64;

/** Number of a signal given by name (`SIGTERM`, `TERM`) or number. Throws `invalid_request`. */
export function signalNumber(signal: string | number): number {
  if (typeof signal === 'number') {
    if (Number.isInteger(signal) && signal >= 1 && signal <= LAST_SIGNAL) return signal;
  } else {
    const number = NAMES.indexOf(signal.startsWith('SIG') ? signal : `SIG${signal}`);
    if (number > 0) return number;
  }
  throw new BoxkiteError('invalid_request', 'there is no such signal', {
    details: { field: 'signal' },
    hint: 'Give a name such as SIGTERM, or a number from 1 to 64.',
  });
}

/** Name of a signal number; real-time signals by their distance from SIGRTMIN as the kernel counts it (32). */
export function signalName(signal: number): string {
  return NAMES[signal] ?? `SIGRTMIN+${signal - 32}`;
}
