import type { ExecRecord } from './port.ts';

const SIGNAL_NUMBERS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGSTKFLT: 16,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGVTALRM: 26,
  SIGPROF: 27,
  SIGIO: 29,
  SIGPWR: 30,
  SIGSYS: 31,
};

const SIGNALED = 128;
const TIMED_OUT = 124;
const KILLED = 137;

/** The exit status that a shell would report for a record. */
export function shellStatus(record: Pick<ExecRecord, 'end' | 'exit_code' | 'signal'>): number {
  if (record.end === 'exited') return record.exit_code ?? KILLED;
  if (record.end === 'timed_out') return TIMED_OUT;
  if (record.end !== 'signaled') return KILLED;
  return SIGNALED + (SIGNAL_NUMBERS[record.signal ?? ''] ?? realTime(record.signal));
}

/** Real-time signals are named `SIGRTMIN+N`, or by their number. */
function realTime(signal: string | null): number {
  const [, plus, plain] = /^SIG(?:RTMIN\+?(\d*)|(\d+))$/.exec(signal ?? '') ?? [];
  if (plain !== undefined) return Number(plain);
  return plus === undefined ? KILLED - SIGNALED : 34 + Number(plus || 0);
}
