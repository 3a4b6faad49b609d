/** The three programs that misbehave on purpose. */
import { readFile } from 'node:fs/promises';
import type { Effective } from '@boxkite/protocol';
import { VIA } from './effective-lines.ts';
import type { Attempt, Offender, OffenderSandbox } from './offender.ts';
import { collect, PYTHON } from './run-sandboxed.ts';
import type { Targets } from './targets.ts';

/** Processes of the sandbox in which one forks without end. */
export const FORK_CAP = 64;

/** Where the demo ends the forking one when nothing else does. */
export const FORK_CEILING = 4 * FORK_CAP;

/** A twin without its mounts has no workspace, so an offender runs in the root directory of both. */
const CWD = '/';

const OFFENDER_TIMEOUT_MS = 20_000;

interface Line {
  readonly attempt: string;
  readonly got: string | null;
  readonly errno: string | null;
  readonly note: string;
}

/** The offenders, aimed at targets that the demo holds ready on the host. */
export function makeOffenders(targets: Targets): readonly Offender[] {
  return [secretReader(targets), connector(targets), forker()];
}

function secretReader(targets: Targets): Offender {
  return {
    title: "reads the caller's files and the environments of others",
    weakened: ['mounts', 'user', 'proc', 'caps', 'landlock'],
    spec: {},
    neighbour: { argv: ['/bin/sleep', '60'], cwd: CWD, env: { [targets.neighbourVariable]: targets.neighbourSecret } },
    wall: (effective) =>
      `own ${namespaces(effective, ['mnt', 'pid', 'user'])} namespaces; uid ${effective.user.uid} ` +
      `(${effective.user.host_uid} outside); ${capabilities(effective)}`,
    run: async (sandbox, marker, signal) => {
      const lines = await runLines(sandbox, signal, 'read-secrets.py', [
        targets.canaryPath,
        targets.variable,
        targets.neighbourVariable,
        marker,
      ]);
      return [
        judge(lines, 'file', '0600 file of the caller', targets.fileSecret),
        {
          ...judge(lines, targets.variable, 'environment of a process of the caller', targets.environmentSecret),
          alsoStoppedBy:
            process.getuid?.() === 0 ? undefined : 'user namespaces, which no twin of a user can do without',
        },
        judge(lines, targets.neighbourVariable, "environment of another sandbox's command", targets.neighbourSecret),
      ];
    },
  };
}

function connector(targets: Targets): Offender {
  return {
    title: 'connects to listeners of the host',
    weakened: ['net', 'landlock'],
    spec: {},
    wall: (effective) => `own ${namespaces(effective, ['net'])} namespace; network: ${effective.network}`,
    run: async (sandbox, marker, signal) => {
      const lines = await runLines(sandbox, signal, 'connect-out.py', [
        String(targets.port),
        targets.abstractName,
        marker,
      ]);
      return [
        judge(lines, 'tcp', 'TCP to 127.0.0.1 of the host', targets.greeting),
        judge(lines, 'abstract', 'abstract Unix socket of the host', targets.greeting),
      ];
    },
  };
}

function forker(): Offender {
  return {
    title: 'forks without end',
    weakened: ['pids'],
    spec: { pids: FORK_CAP },
    wall: (effective) =>
      `at most ${effective.processes.max ?? 'any number of'} processes, by ${VIA[effective.processes.via]}`,
    run: async (sandbox, marker, signal) => {
      const source = await programSource('fork-without-end.py');
      const argv = [PYTHON, '-c', source, String(FORK_CEILING), marker];
      const handle = await sandbox.exec({ argv, cwd: CWD, timeout_ms: OFFENDER_TIMEOUT_MS }, signal);
      // It never ends by itself: its first line says where it got to, then the demo ends it.
      let said = '';
      let killing: Promise<void> | undefined;
      await collect(handle, (text) => {
        said += text;
        if (said.includes('\n')) killing ??= handle.kill();
      });
      await killing;
      return [judgeForks(said)];
    },
  };
}

function judgeForks(said: string): Attempt {
  const value: unknown = said.includes('\n') ? JSON.parse(said.slice(0, said.indexOf('\n'))) : {};
  const fields = new Map<string, unknown>(Object.entries(value ?? {}));
  const forks = Number(fields.get('forks') ?? Number.NaN);
  const errno = fields.get('errno');
  const observed =
    typeof errno === 'string'
      ? `number ${forks + 1} refused with ${errno}`
      : `${Number.isNaN(forks) ? said : `${forks} succeeded`}, ended by the demo`;
  return { what: 'forks', succeeded: forks >= FORK_CEILING && errno === null, observed };
}

async function runLines(
  sandbox: OffenderSandbox,
  signal: AbortSignal,
  file: string,
  args: readonly string[],
): Promise<readonly Line[]> {
  const argv = [PYTHON, '-c', await programSource(file), ...args];
  const handle = await sandbox.exec({ argv, cwd: CWD, timeout_ms: OFFENDER_TIMEOUT_MS }, signal);
  const { stdout, stderr, record } = await collect(handle);
  if (record.exit_code !== 0) throw new TypeError(`${file} ended as ${record.end} ${record.exit_code}: ${stderr}`);
  return stdout.trim().split('\n').map(parseLine);
}

function parseLine(text: string): Line {
  const value: unknown = JSON.parse(text);
  const fields = new Map<string, unknown>(Object.entries(value ?? {}));
  const textOrNull = (name: string): string | null => {
    const field = fields.get(name);
    return typeof field === 'string' ? field : null;
  };
  return {
    attempt: textOrNull('attempt') ?? '',
    got: textOrNull('got'),
    errno: textOrNull('errno'),
    note: textOrNull('note') ?? '',
  };
}

function judge(lines: readonly Line[], attempt: string, what: string, secret: string): Attempt {
  const line = lines.find((candidate) => candidate.attempt === attempt);
  if (line === undefined) throw new TypeError(`the program said nothing about ${attempt}`);
  const succeeded = line.got === secret;
  const answer = line.got === null ? (line.errno ?? 'not found') : succeeded ? 'got it' : 'got something else';
  return { what, succeeded, observed: line.note === '' ? answer : `${answer} (${line.note})` };
}

async function programSource(name: string): Promise<string> {
  return await readFile(new URL(`programs/${name}`, import.meta.url), 'utf8');
}

function namespaces(effective: Effective, names: readonly (keyof Effective['namespaces'])[]): string {
  const own = names.filter((name) => effective.namespaces[name] !== undefined);
  return own.length === 0 ? 'no' : own.join(', ');
}

function capabilities(effective: Effective): string {
  const none = Object.values(effective.capabilities).every((set) => /^0*$/.test(set));
  return none ? 'no capability' : 'capabilities held';
}
