/** Options by name: a slip in one would leave out a limit without a word, and not every caller's types are checked. */
import type { ExecLimits } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { CommandOptions } from './command.ts';
import type { StartOptions } from './execs.ts';
import type { ExecOptions, SandboxOptions, StreamOptions } from './sandbox.ts';

/** All of them, which the compiler checks. */
type Names<T> = { readonly [K in keyof Required<T>]: true };

const command: Names<CommandOptions> = {
  cwd: true,
  env: true,
  timeout_ms: true,
  limits: true,
  secret_env: true,
  fresh: true,
  signal: true,
};
const limits: Names<ExecLimits> = { memory_mb: true, pids: true, cpu_ms: true, output_bytes: true };
const exec: Names<ExecOptions> = { ...command, stdin: true, check: true, max_output_bytes: true };
const stream: Names<StreamOptions> = { ...command, stdin: true, tty: true };
const start: Names<StartOptions> = { ...command, stdin: true, tty: true, overflow: true };
const create: Names<SandboxOptions> = {
  rootfs: true,
  copy: true,
  memory_mb: true,
  pids: true,
  cpus: true,
  workspace_mb: true,
  inodes: true,
  fresh: true,
  workspace: true,
  sandbox_allowed_commands: true,
  label: true,
  lifetime_minutes: true,
  timeout_ms: true,
  signal: true,
  provider: true,
  daemon: true,
  url: true,
  apiKey: true,
  ca: true,
  fetch: true,
};
const calls = { create, exec, stream, start };

/** Refuses an option that the call does not have. Errors: `invalid_request`, which names it. */
export function checkOptions(call: keyof typeof calls, given: object): void {
  check(calls[call], given, call);
  const inner = 'limits' in given ? given.limits : undefined;
  if (call !== 'create' && typeof inner === 'object' && inner !== null) check(limits, inner, 'limits');
}

function check(known: Readonly<Record<string, true>>, given: object, of: string): void {
  const field = Object.keys(given).find((name) => !Object.hasOwn(known, name));
  if (field === undefined) return;
  throw new BoxkiteError('invalid_request', `${of} has no option ${field}`, {
    hint: `It has ${Object.keys(known).join(', ')}.`,
    details: { field },
  });
}
