import type { ExecLimits, ExecRequest } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { checkedTimeout } from './deadline.ts';

/** A line for `/bin/sh -c`, or a program with its arguments, which no shell sees. */
export type Command = string | readonly string[];

/** What both ways of running a command take. */
export interface CommandOptions {
  /** Where it runs. Default `/workspace`; relative paths start there. */
  readonly cwd?: string | undefined;
  /** Added to the sandbox's fixed environment; nothing of the caller's own environment is. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** ms of running time; at the limit everything that the command started is killed and `end` is `timed_out`. */
  readonly timeout_ms?: number | undefined;
  readonly limits?: ExecLimits | undefined;
  /** Added like `env`; each value is masked wherever output shows it. Needs a daemon. */
  readonly secret_env?: Readonly<Record<string, string>> | undefined;
  /** Runs in an envelope of its own, made for this command alone. */
  readonly fresh?: boolean | undefined;
  /** Aborting kills everything that the command started, then the call fails with `aborted`. */
  readonly signal?: AbortSignal | undefined;
}

/** The port's request for a command. Errors: `invalid_request`. */
export function execRequest(command: Command, options: CommandOptions): ExecRequest {
  return {
    argv: typeof command === 'string' ? ['/bin/sh', '-c', command] : checkedArguments(command),
    cwd: options.cwd,
    env: options.env,
    secret_env: options.secret_env,
    timeout_ms: options.timeout_ms === undefined ? undefined : checkedTimeout(options.timeout_ms),
    limits: options.limits,
    fresh: options.fresh,
  };
}

/** Input that is given whole. */
export function inputBytes(data: string | Uint8Array | undefined): Uint8Array | undefined {
  return typeof data === 'string' ? new TextEncoder().encode(data) : data;
}

function checkedArguments(command: readonly unknown[]): readonly string[] {
  if (!Array.isArray(command) || command.length === 0) {
    throw new BoxkiteError('invalid_request', 'a command is a string, or an array of a program and its arguments', {
      hint: "Pass 'ls -l' or ['ls', '-l'].",
      details: { field: 'command' },
    });
  }
  return command.map((argument: unknown, index) => {
    if (typeof argument === 'string') return argument;
    throw new BoxkiteError('invalid_request', `argument ${index} of the command is not a string`, {
      details: { field: 'command' },
    });
  });
}
