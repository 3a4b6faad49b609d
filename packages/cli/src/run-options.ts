/** The options of `boxkite run`, and what they ask for. */

import type { SandboxSpec } from '@boxkite/protocol';
import { allowedCommandsOption } from './allowed-commands.ts';
import { commonOptions } from './command.ts';
import type { OptionValues } from './option-values.ts';
import type { OptionTable } from './options.ts';
import { mistake } from './options.ts';
import { limitOptions, limitsOf } from './sandbox-options.ts';

/** The table of `boxkite run`. */
export const runOptions = {
  rootfs: { value: 'DIR', help: "a root file system instead of the host's programs; or a name that the daemon knows" },
  copy: limitOptions.copy,
  cwd: { value: 'DIR', help: 'where the command starts, inside the sandbox (/workspace)' },
  env: { value: 'NAME=VALUE', help: 'a variable for the command; may be repeated', repeatable: true },
  timeout: { value: 'SECONDS', help: 'kill everything after this time; the exit status is then 124' },
  memory: limitOptions.memory,
  pids: limitOptions.pids,
  cpus: limitOptions.cpus,
  workspace: { value: 'MB', help: 'room for files (1024)' },
  'allowed-commands': allowedCommandsOption,
  private: { value: null, help: 'use no daemon, although one runs' },
  ...commonOptions,
} as const satisfies OptionTable;

/** What a call of `boxkite run` asks for. */
export interface RunRequest {
  readonly spec: SandboxSpec;
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly timeout_ms: number | undefined;
  readonly json: boolean;
  /** A daemon is not to be used, or can't: it knows no directories of its caller as root file systems. */
  readonly private: boolean;
}

/** What the options and the command ask for. Errors: `invalid_request`. */
export function runRequest(options: OptionValues<typeof runOptions>, argv: readonly string[]): RunRequest {
  if (argv.length === 0)
    throw mistake('no command is given', 'Write `boxkite run -- COMMAND`; see `boxkite run --help`.');
  const rootfs = options.text('rootfs');
  return {
    spec: { rootfs, ...limitsOf(options), workspace_mb: options.whole('workspace') },
    argv,
    cwd: options.text('cwd'),
    env: options.variables('env'),
    timeout_ms: options.timeout('timeout'),
    json: options.has('json'),
    private: options.has('private') || (rootfs !== undefined && isPath(rootfs)),
  };
}

/** A name of an operator's root has no slash; `./NAME` is a directory in every case. */
function isPath(rootfs: string): boolean {
  return rootfs.includes('/') || rootfs === '.' || rootfs === '..';
}
