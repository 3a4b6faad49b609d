import { PassThrough } from 'node:stream';
import { BoxkiteError, BoxkiteWireError } from '@boxkite/protocol';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { END_GRACE_MS, Interrupts } from '../src/interrupts.ts';
import type { CommandIo } from '../src/io.ts';

/** Interrupts of a process that gets the signals which the test sends. */
function started(): {
  readonly interrupts: Interrupts;
  readonly send: (signal: NodeJS.Signals) => void;
  readonly listening: () => boolean;
} {
  let listener: ((signal: NodeJS.Signals) => void) | undefined;
  const io: CommandIo = {
    env: {},
    stdin: () => new PassThrough(),
    stdout: () => new PassThrough(),
    stderr: () => new PassThrough(),
    written: async () => null,
    terminal: false,
    isTerminal: () => false,
    stdinEmpty: true,
    terminalSize: () => ({ columns: 80, rows: 24 }),
    setRawMode: () => undefined,
    onSignal: (_signals, added) => {
      listener = added;
      return () => {
        listener = undefined;
      };
    },
  };
  return {
    interrupts: new Interrupts(io),
    send: (signal) => listener?.(signal),
    listening: () => listener !== undefined,
  };
}

/** A command that hears signals and stays. */
function stubborn(interrupts: Interrupts): { readonly heard: unknown[]; kills: number } {
  const command = { heard: [] as unknown[], kills: 0 };
  const signal = (number: unknown): Promise<void> => {
    command.heard.push(number);
    return Promise.resolve();
  };
  interrupts.forwardTo({ signal }, () => {
    command.kills += 1;
  });
  return command;
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a signal before the command runs ends the run', () => {
  const { interrupts, send } = started();
  expect(interrupts.exitStatus).toBeNull();
  send('SIGINT');
  expect(interrupts.signal.aborted).toBe(true);
  expect(interrupts.exitStatus).toBe(130);
});

test.each([
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const)('%s is handed on, and kills when its time is over', (signal, status) => {
  const { interrupts, send } = started();
  const command = stubborn(interrupts);
  send(signal);
  vi.advanceTimersByTime(END_GRACE_MS - 1);
  expect(command).toEqual({ heard: [signal], kills: 0 });
  expect(interrupts.signal.aborted).toBe(false);
  expect(interrupts.exitStatus).toBeNull();
  vi.advanceTimersByTime(1);
  expect(command).toEqual({ heard: [signal], kills: 1 });
  expect(interrupts.signal.aborted).toBe(true);
  expect(interrupts.exitStatus).toBe(status);
});

test.each(['SIGINT', 'SIGQUIT'] as const)('%s alone never kills', (signal) => {
  const { interrupts, send } = started();
  const command = stubborn(interrupts);
  send(signal);
  vi.advanceTimersByTime(10 * END_GRACE_MS);
  expect(command).toEqual({ heard: [signal], kills: 0 });
  expect(interrupts.signal.aborted).toBe(false);
});

test('a second signal kills at once, and only once', () => {
  const { interrupts, send } = started();
  const command = stubborn(interrupts);
  send('SIGTERM');
  send('SIGINT');
  expect(command).toEqual({ heard: ['SIGTERM'], kills: 1 });
  expect(interrupts.exitStatus).toBe(130);
  vi.advanceTimersByTime(END_GRACE_MS);
  expect(command.kills).toBe(1);
});

test.each([
  ['the command has ended', (interrupts: Interrupts) => interrupts.commandEnded()],
  ['the run is over', (interrupts: Interrupts) => interrupts.stop()],
] as const)('when %s, time is no matter', (_when, end) => {
  const { interrupts, send } = started();
  const command = stubborn(interrupts);
  send('SIGTERM');
  end(interrupts);
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(END_GRACE_MS);
  expect(command.kills).toBe(0);
  expect(interrupts.exitStatus).toBeNull();
});

function refusal(status: number, code: string): BoxkiteWireError {
  return new BoxkiteWireError(status, { error: { code, message: code, hint: '', retryable: false, details: {} } });
}

test.each([
  ['a command that has just ended', refusal(409, 'exec_ended')],
  ['a server that starts again', refusal(503, 'state_unavailable')],
  ['a connection that is cut', new BoxkiteError('connection_lost', 'cut')],
])('a signal that does not reach %s is no fault', async (_name, failure) => {
  vi.useRealTimers();
  const unhandled = vi.fn();
  process.on('unhandledRejection', unhandled);
  try {
    const { interrupts, send } = started();
    interrupts.forwardTo({ signal: () => Promise.reject(failure) }, () => undefined);
    send('SIGINT');
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).not.toHaveBeenCalled();
    expect(interrupts.signal.aborted).toBe(false);
  } finally {
    process.off('unhandledRejection', unhandled);
  }
});

test('stops listening', () => {
  const { interrupts, listening } = started();
  expect(listening()).toBe(true);
  interrupts.stop();
  expect(listening()).toBe(false);
});
