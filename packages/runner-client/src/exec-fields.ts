import {
  BoxkiteError,
  maxArgumentBytes,
  maxCount,
  maxInlineStdinBytes,
  maxPathBytes,
  maxTerminalSize,
} from '@boxkite/protocol';
import { type EncodedStrings, type ExecFields, encodeStrings } from './operations.ts';
import type { RunnerExecRequest } from './types.ts';

const MIB = 1024 * 1024;
/** The runner refuses less: PID 1 and the start of a program need it. */
const LEAST_MEMORY_MB = 4;
const EMPTY = new Uint8Array(0);

function invalid(field: string, message: string): BoxkiteError {
  return new BoxkiteError('invalid_request', `${field}: ${message}`, { details: { field } });
}

/** A whole number within a range; `undefined` is `absent`. */
function whole(field: string, value: number | undefined, absent: number, least: number, most: number): number {
  if (value === undefined) return absent;
  if (!Number.isInteger(value) || value < least || value > most) {
    throw invalid(field, `must be a whole number from ${least} to ${most}`);
  }
  return value;
}

/** Refuses what can't be an argument of a program, instead of changing it. */
function checkText(field: string, text: string): void {
  if (typeof text !== 'string') throw invalid(field, 'must be text');
  if (text.includes('\0')) throw invalid(field, 'must not contain a NUL byte');
  if (!text.isWellFormed()) throw invalid(field, 'must be well-formed Unicode');
}

/** The environment of commands: encoded once for all that add nothing to it. */
export class Environment {
  readonly #fixed: Readonly<Record<string, string>>;
  readonly #encoded: EncodedStrings;

  /** Throws `invalid_request` for a name or value that can't be in an environment. */
  constructor(fixed: Readonly<Record<string, string>>) {
    this.#fixed = fixed;
    this.#encoded = encodeEnvironment(fixed);
  }

  /** With what a request adds; an added name replaces a fixed one. */
  with(added: Readonly<Record<string, string>> | undefined): EncodedStrings {
    return added === undefined ? this.#encoded : encodeEnvironment({ ...this.#fixed, ...added });
  }
}

function encodeEnvironment(environment: Readonly<Record<string, string>>): EncodedStrings {
  const strings: string[] = [];
  for (const [name, value] of Object.entries(environment)) {
    if (name === '' || name.includes('=')) throw invalid('env', 'a name must not be empty or contain "="');
    checkText('env', name);
    checkText('env', value);
    strings.push(`${name}=${value}`);
  }
  return encodeStrings(strings);
}

function encodeArguments(argv: readonly string[]): EncodedStrings {
  if (argv.length === 0 || argv[0] === '') throw invalid('argv', 'must begin with a program');
  let length = 0;
  for (const argument of argv) {
    checkText('argv', argument);
    length += argument.length;
    // Before anything of that size is encoded.
    if (length > maxArgumentBytes) throw tooLong();
  }
  return encodeStrings(argv);
}

function tooLong(): BoxkiteError {
  return new BoxkiteError('argument_list_too_long', 'the arguments and the environment together are longer than 3 MiB');
}

/** Checks a request and brings it into the protocol's units. Throws `invalid_request` or `argument_list_too_long`. */
export function execFields(sandbox: bigint, request: RunnerExecRequest, environment: Environment): ExecFields {
  const argv = encodeArguments(request.argv);
  const cwd = request.cwd ?? '/workspace';
  checkText('cwd', cwd);
  if (cwd === '' || cwd.length > maxPathBytes) throw invalid('cwd', `must have 1 to ${maxPathBytes} characters`);
  const encoded = environment.with(request.env);
  if (argv.bytes.length + encoded.bytes.length > maxArgumentBytes) throw tooLong();
  const { limits, stdin, tty } = request;
  if (stdin === 'channel' && tty !== undefined) throw invalid('stdin', 'a terminal has no channel');
  whole('limits.output_bytes', limits?.output_bytes, 0, 0, Number.MAX_SAFE_INTEGER);
  const inline = stdin instanceof Uint8Array && stdin.length <= maxInlineStdinBytes;
  return {
    sandbox,
    timeoutMs: whole('timeout_ms', request.timeout_ms, 0, 1, Number.MAX_SAFE_INTEGER),
    memoryBytes: whole('limits.memory_mb', limits?.memory_mb, 0, LEAST_MEMORY_MB, maxCount) * MIB,
    cpuMs: whole('limits.cpu_ms', limits?.cpu_ms, 0, 1, Number.MAX_SAFE_INTEGER),
    pids: whole('limits.pids', limits?.pids, 0, 1, maxCount),
    columns: tty === undefined ? 0 : whole('tty.columns', tty.columns, 0, 1, maxTerminalSize),
    rows: tty === undefined ? 0 : whole('tty.rows', tty.rows, 0, 1, maxTerminalSize),
    stdin: stdin === undefined ? 0 : stdin === 'channel' ? 3 : inline ? 1 : 2,
    terminal: tty !== undefined,
    block: request.overflow === 'block',
    fresh: request.fresh === true,
    cwd,
    argv,
    environment: encoded,
    inline: inline ? stdin : EMPTY,
  };
}
