/** The table of `docs/reference/system-calls.tsv`, and what was really seen. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compileInside, install, run, type TestSandbox } from '@boxkite/testing';

/** One line of the table. */
export interface TableRow {
  readonly name: string;
  /** Number on this machine's architecture; absent where it has none. */
  readonly number: number | undefined;
  /** `allow`, `rule:NAME`, or the name of an errno. */
  readonly action: string;
  readonly reason: string;
}

const TABLE = fileURLToPath(new URL('../../../docs/reference/system-calls.tsv', import.meta.url));

/** Reads the committed table. */
export function readTable(): readonly TableRow[] {
  const [header = '', ...lines] = readFileSync(TABLE, 'utf8').trimEnd().split('\n');
  const columns = header.split('\t');
  const numbers = columns.indexOf(process.arch === 'arm64' ? 'aarch64' : 'x86_64');
  return lines.map((line) => {
    const cells = line.split('\t');
    const [name = '', action = '', reason = ''] = ['name', 'action', 'reason'].map(
      (column) => cells[columns.indexOf(column)],
    );
    const number = cells[numbers];
    return { name, number: number === undefined || number === '-' ? undefined : Number(number), action, reason };
  });
}

/** Outcome of a call by its number, as `system-calls.c` prints it. */
export type Outcomes = ReadonlyMap<string, string>;

function parse(text: string): Outcomes {
  return new Map(
    text
      .trimEnd()
      .split('\n')
      .map((line) => {
        const space = line.indexOf(' ');
        return [line.slice(0, space), line.slice(space + 1)] as const;
      }),
  );
}

/** Numbers up to this one are tried: far above the last one of any kernel. */
export const LAST_NUMBER = 600;

/** Tries every call in a sandbox. */
export async function tryInside(sandbox: TestSandbox): Promise<Outcomes> {
  const path = await install(sandbox, 'system-calls', compileInside('system-calls.c'));
  let text = '';
  for (const args of [['0', String(LAST_NUMBER)], ['x32'], ['int80']]) {
    const { record, stdout, stderr } = await run(sandbox, [path, ...args]);
    if (record.exit_code !== 0) throw new Error(`system-calls ended with ${record.end} ${record.exit_code}: ${stderr}`);
    text += stdout;
  }
  return parse(text);
}

/** Tries every call on the host, as an id without rights: the control. */
export function tryOnHost(): Outcomes {
  const directory = mkdtempSync(join(tmpdir(), 'boxkite-calls-'));
  try {
    chmodSync(directory, 0o755);
    const path = join(directory, 'system-calls');
    writeFileSync(path, compileInside('system-calls.c'), { mode: 0o755 });
    const text = [['0', String(LAST_NUMBER)], ['x32'], ['int80']]
      .map((args) => execFileSync(path, args, { encoding: 'utf8', cwd: '/' }))
      .join('');
    return parse(text);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** `errno N` of an errno's name. */
export function errnoLine(name: string): string {
  const value = Object.entries(constants.errno).find(([key]) => key === name)?.[1];
  if (value === undefined) throw new Error(`no errno is called ${name}`);
  return `errno ${value}`;
}

const SIGSYS = `signal ${constants.signals.SIGSYS}`;

/** Rules whose answer to a call with every argument -1 does not depend on what the kernel then finds. */
const RULES_WITH_ALL_ONES: Readonly<Record<string, string>> = {
  'rule:clone': 'EPERM',
  'rule:unshare': 'EPERM',
  'rule:socket': 'EAFNOSUPPORT',
  'rule:prctl': 'EINVAL',
  'rule:seccomp': 'EPERM',
  'rule:mknod': 'EPERM',
  'rule:mknodat': 'EPERM',
};

/** Everything in which the outcomes inside differ from the table; `control` is the host's. */
export function systemCallViolations(inside: Outcomes, control: Outcomes): readonly string[] {
  const found: string[] = [];
  const table = new Map(readTable().flatMap((row) => (row.number === undefined ? [] : [[row.number, row] as const])));
  const refused = new Set(['EPERM', 'ENOSYS'].map(errnoLine));
  for (let number = 0; number <= LAST_NUMBER; number += 1) {
    const outcome = inside.get(String(number)) ?? 'nothing';
    const row = table.get(number);
    const action = row === undefined ? 'ENOSYS' : (RULES_WITH_ALL_ONES[row.action] ?? row.action);
    if (action === 'allow' || action.startsWith('rule:')) {
      // The kernel itself refuses some to anybody without rights: then so it does on the host.
      if (
        outcome === 'nothing' ||
        outcome === SIGSYS ||
        (refused.has(outcome) && control.get(String(number)) !== outcome)
      ) {
        found.push(
          `${row?.name} (${number}) is to be allowed, and gave ${outcome} (on the host: ${control.get(String(number))})`,
        );
      }
    } else if (outcome !== errnoLine(action)) {
      found.push(`${row?.name ?? 'an unknown call'} (${number}) is to give ${action}, and gave ${outcome}`);
    }
  }
  if (process.arch === 'x64') {
    for (const gate of ['x32', 'int80'])
      if (inside.get(gate) !== SIGSYS) found.push(`${gate} is to be killed, and gave ${inside.get(gate)}`);
  }
  return found;
}
