import { isUtf8 } from 'node:buffer';
import type { CollectedExec, ExecRecord, ExecRequest } from '@boxkite/protocol';
import { BoxkiteError, shellStatus, v1 } from '@boxkite/protocol';
import type { z } from 'zod';

const MS = 1000;
const SHELL = ['/bin/sh', '-c'] as const;

type Common = z.output<typeof v1.execBody>;

/** A request to run a command to its end, in the terms of the port. */
export function execRequest(body: Common): ExecRequest {
  return { ...common(body, v1.defaultExecTimeoutSeconds), stdin: inlineInput(body) };
}

/** A request to start a command, in the terms of the port. */
export function startRequest(body: z.output<typeof v1.startExecBody>): ExecRequest {
  return {
    ...common(body, null),
    stdin: body.stdin_open === true ? 'stream' : inlineInput(body),
    tty: body.tty ?? undefined,
  };
}

function common(body: Common, defaultSeconds: number | null): ExecRequest {
  if (body.network === 'session') throw noNetwork();
  const seconds = body.timeout === undefined ? defaultSeconds : body.timeout;
  return {
    argv: body.argv ?? [...SHELL, body.command ?? ''],
    cwd: body.cwd ?? undefined,
    env: body.env ?? undefined,
    secret_env: body.secret_env ?? undefined,
    timeout_ms: seconds === null ? undefined : Math.max(1, Math.ceil(seconds * MS)),
    limits: body.limits ?? undefined,
    overflow: body.overflow ?? undefined,
    fresh: body.fresh ?? undefined,
  };
}

/** What a command is told that asks for the session's network. */
export function noNetwork(): BoxkiteError {
  return new BoxkiteError('unsupported', 'commands of this sandbox have no network', {
    hint: 'Leave `network` out, or send `none`.',
    details: { field: 'network' },
  });
}

function inlineInput(body: Pick<Common, 'stdin' | 'stdin_base64'>): Uint8Array | undefined {
  if (body.stdin !== undefined) return Buffer.from(body.stdin, 'utf8');
  return body.stdin_base64 === undefined ? undefined : Buffer.from(body.stdin_base64, 'base64');
}

/** The answer to an exec that was run to its end. */
export function execAnswer({ record, stdout, stderr, stdout_truncated, stderr_truncated }: CollectedExec): object {
  return {
    ...record,
    exit_code: shellStatus(record),
    exit_status: record.exit_code,
    stdout: text(stdout),
    stderr: text(stderr),
    stdout_base64: isUtf8(stdout) ? undefined : base64(stdout),
    stderr_base64: isUtf8(stderr) ? undefined : base64(stderr),
    stdout_truncated,
    stderr_truncated,
  };
}

/** UTF-8, other bytes as U+FFFD. */
export function text(bytes: Uint8Array): string {
  return view(bytes).toString('utf8');
}

/** Base64 of RFC 4648. */
export function base64(bytes: Uint8Array): string {
  return view(bytes).toString('base64');
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A background process of the reference: a line whose errors go where its output goes, and what it is for. */
export function processRequest(command: string, description: string | null, maxSeconds: number): ExecRequest {
  return {
    argv: [...PROCESS, command, ...(description === null ? [] : [description])],
    stdin: 'stream',
    timeout_ms: maxSeconds * MS,
  };
}

/** The shell of the line is one of its own, which has nothing of this one but its descriptors. */
const PROCESS = [...SHELL, 'exec 2>&1; exec /bin/sh -c "$1"', 'process'] as const;

/** The line and the description of an exec that is such a process; `null` for every other one. */
export function processOf(argv: readonly string[]): { command: string; description: string | null } | null {
  const command = argv[PROCESS.length];
  if (command === undefined || !PROCESS.every((part, index) => argv[index] === part)) return null;
  return { command, description: argv[PROCESS.length + 1] ?? null };
}

/** The reference's status of a process, and its exit code. */
export function processStatus(record: ExecRecord | null): {
  status: v1.ProcessStatus;
  exit_code: number | null;
} {
  if (record === null) return { status: 'running', exit_code: null };
  return { status: endedStatus(record), exit_code: shellStatus(record) };
}

function endedStatus({ end, reason, signal }: ExecRecord): 'exited' | 'stopped' | 'killed' {
  if (end === 'exited') return 'exited';
  if (end === 'signaled') return signal === 'SIGTERM' ? 'stopped' : 'exited';
  return end === 'killed' && reason === 'requested' ? 'stopped' : 'killed';
}

/** The exec port of a sandbox. Errors: `unsupported` where it keeps no records. */
export function execsOf<T>(port: { readonly execs: T | null }): T {
  if (port.execs === null) throw new BoxkiteError('unsupported', 'this sandbox keeps no records of commands');
  return port.execs;
}
