/** Starts a daemon that outlives its terminal, and waits until it serves. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, readSync, renameSync, statSync } from 'node:fs';
import { BoxkiteError, BoxkiteFailure, isErrorCode } from '@boxkite/protocol';
import type { DaemonPlaces } from './places.ts';
import { waitUntilServing } from './status.ts';

const START_DEADLINE_MS = 60_000;
const MOST_LOG_BYTES = 8 * 1024 * 1024;
const SHOWN_BYTES = 4096;

/**
 * Runs `command`, which is to become the daemon, in a session of its own with its output in the log. Resolves with its
 * process id when it answers. Errors: the one that it gave as its reason, `runner_failed` with what it said last,
 * `state_unavailable`.
 */
export async function startDetached(
  places: DaemonPlaces,
  command: readonly [program: string, ...args: string[]],
  env: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  if (existsSync(places.log) && statSync(places.log).size > MOST_LOG_BYTES) renameSync(places.log, `${places.log}.1`);
  const log = openSync(places.log, 'a+', 0o600);
  try {
    const begin = fstatSync(log).size;
    const [program, ...args] = command;
    const together = endTogether();
    const child = spawn(program, args, { detached: true, stdio: ['ignore', log, log], cwd: '/', env: { ...env } });
    let failure: Error | null = null;
    child.once('error', (error) => {
      failure = error;
    });
    const pid = child.pid ?? 0;
    together.with(child);
    const ended = (): boolean => failure !== null || child.exitCode !== null || child.signalCode !== null;
    try {
      await waitUntilServing(places, { pid, ended }, START_DEADLINE_MS);
    } catch (error) {
      throw explained(error, failure ?? said(log, begin), places);
    } finally {
      together.stop();
    }
    child.unref();
    return pid;
  } finally {
    closeSync(log);
  }
}

/**
 * Until it serves, Ctrl-C and its kind end what is starting too, which has a session of its own and hears of none. Made
 * before there is a child, so that no signal comes between.
 */
function endTogether(): { readonly with: (child: ChildProcess) => void; readonly stop: () => void } {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  let heard: NodeJS.Signals | null = null;
  let starting: ChildProcess | null = null;
  const end = (): void => {
    if (heard === null || starting === null) return;
    const signal = heard;
    // The listener is gone by then, so that this program ends as the signal says.
    starting.once('exit', () => process.kill(process.pid, signal));
    starting.kill('SIGTERM');
  };
  const hear = (signal: NodeJS.Signals): void => {
    heard ??= signal;
    end();
  };
  for (const signal of signals) process.once(signal, hear);
  return {
    with: (child) => {
      starting = child;
      end();
    },
    stop: () => {
      for (const signal of signals) process.off(signal, hear);
    },
  };
}

function said(log: number, begin: number): string {
  const length = fstatSync(log).size - begin;
  const bytes = Buffer.alloc(Math.min(length, SHOWN_BYTES));
  readSync(log, bytes, 0, bytes.length, begin + length - bytes.length);
  return bytes.toString('utf8').trim();
}

/** What the command line, Node and the runner say for people: a line, or one with its code and a hint below. */
const SAID = /^boxkite: (?<message>.+) \((?<code>\w+)\)\nhint: (?<hint>.+)$/m;

/** The reason that it gave itself; else the last line that it wrote. */
export function explained(error: unknown, why: Error | string, places: Pick<DaemonPlaces, 'log'>): unknown {
  if (!(error instanceof BoxkiteFailure) || error.code !== 'runner_failed') return error;
  const text = why instanceof Error ? why.message : why;
  const { message, code, hint } = SAID.exec(text)?.groups ?? {};
  if (message !== undefined && code !== undefined && isErrorCode(code)) {
    return new BoxkiteError(code, message, { ...(hint === undefined ? {} : { hint }), cause: error });
  }
  const last = text.split('\n').findLast((line) => line.trim() !== '') ?? 'it said nothing';
  return new BoxkiteError('runner_failed', `the daemon ended at its start: ${last}`, {
    hint: `Correct what it says; all of it is in ${places.log}.`,
    cause: error,
  });
}
