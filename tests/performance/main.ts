/**
 * `make bench`: every promised number of one program, of the daemon and of the sidecar, each beside its baseline in the same run.
 * `--row NAME` (repeatable), `--rounds N`, `--scale X`, `--json FILE`, `--list`. Exit status 1 where a promise is broken or a row failed,
 * 2 for a wrong call. Composition root and only reader of the environment.
 */
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { cacheDirectory } from '../../tools/demo/cache-directory.ts';
import { Screen } from '../../tools/demo/screen.ts';
import { readOnlyRow } from './bench-document.ts';
import { benchAsOrdinaryUser } from './ordinary-user.ts';
import { circumstances, type RowResult, showCircumstances, showRow } from './report.ts';
import { type Effort, MissingPrerequisite, type Row } from './row.ts';
import { daemonExec, daemonInFlight, daemonLife } from './rows/daemon.ts';
import { daemonMany } from './rows/daemon-many.ts';
import { daemonRestart } from './rows/daemon-restart.ts';
import { daemonCuts, daemonFiles, daemonOutput } from './rows/daemon-transfer.ts';
import { deadlines } from './rows/deadline.ts';
import { execRow, execsInFlight } from './rows/exec.ts';
import { bigFiles, smallRead } from './rows/files.ts';
import { life, runCommand } from './rows/life.ts';
import { outputMemory } from './rows/memory.ts';
import { output, outputRedacted } from './rows/output.ts';
import { policyCommands, policyRedaction } from './rows/policy.ts';
import { policyKernel } from './rows/policy-kernel.ts';
import { programs } from './rows/programs.ts';
import { sidecarExec, sidecarInFlight } from './rows/sidecar.ts';
import { sidecarCreate, sidecarGrep, sidecarLs, sidecarView } from './rows/sidecar-files.ts';
import { sidecarInterpreter } from './rows/sidecar-interpreter.ts';
import { sidecarHealth, sidecarMemory, sidecarTls } from './rows/sidecar-load.ts';

interface Choice {
  readonly rows: readonly Row[];
  /** Rows that root lets a fresh user run. */
  readonly userRows: readonly Row[];
  readonly effort: Effort;
  readonly json: string | undefined;
  readonly list: boolean;
}

class UsageError extends Error {
  override readonly name = 'UsageError';
}

const asRoot = process.getuid?.() === 0;

const SHARED: readonly Row[] = [
  execsInFlight,
  life,
  runCommand,
  programs,
  output,
  outputRedacted,
  outputMemory,
  bigFiles,
  smallRead,
  ...deadlines,
  daemonExec,
  daemonInFlight,
  daemonLife,
  daemonFiles,
  daemonOutput,
  daemonCuts,
  daemonRestart,
  daemonMany,
  sidecarExec,
  sidecarInFlight,
  sidecarView,
  sidecarCreate,
  sidecarLs,
  sidecarGrep,
  sidecarInterpreter,
  sidecarHealth,
  sidecarTls,
  sidecarMemory,
  policyCommands,
  policyRedaction,
  policyKernel,
];

function choose(argv: readonly string[]): Choice {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      row: { type: 'string', multiple: true },
      rounds: { type: 'string', default: '5' },
      scale: { type: 'string', default: '1' },
      json: { type: 'string' },
      list: { type: 'boolean', default: false },
    },
  });
  const here = asRoot ? [execRow(true), ...SHARED] : [execRow(false), ...SHARED];
  const elsewhere = asRoot ? [execRow(false)] : [];
  const names = new Set(values.row ?? [...here, ...elsewhere].map((row) => row.name));
  for (const name of names) {
    const known = [...here, ...elsewhere].map((row) => row.name);
    if (!known.includes(name)) throw new UsageError(`no row ${name}; there are ${known.join(', ')}`);
  }
  return {
    rows: here.filter((row) => names.has(row.name)),
    userRows: elsewhere.filter((row) => names.has(row.name)),
    effort: {
      rounds: number('rounds', values.rounds, 1),
      scale: number('scale', values.scale, 0.0001),
      cacheDirectory: cacheDirectory(process.env['XDG_CACHE_HOME']),
    },
    json: values.json,
    list: values.list,
  };
}

function number(option: string, text: string, least: number): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value < least)
    throw new UsageError(`--${option} is to be a number of at least ${least}`);
  return value;
}

async function runRow(row: Row, effort: Effort): Promise<RowResult> {
  const { name, source, what, baseline } = row;
  const known = { name, source, what, baseline };
  try {
    return { ...known, state: 'measured', comparisons: await row.run(effort) };
  } catch (error) {
    if (error instanceof MissingPrerequisite)
      return { ...known, state: 'missing', reason: error.message, hint: error.hint };
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { ...known, state: 'failed', reason };
  }
}

/** A row measured by another process of a fresh user; its own JSON holds exactly this row. */
async function runUserRow(row: Row, effort: Effort): Promise<RowResult> {
  const inner: Row = {
    ...row,
    run: async () => {
      const text = await benchAsOrdinaryUser([
        '--row',
        row.name,
        '--rounds',
        String(effort.rounds),
        '--scale',
        String(effort.scale),
      ]);
      return readOnlyRow(text);
    },
  };
  return await runRow(inner, effort);
}

async function bench(choice: Choice, screen: Screen): Promise<boolean> {
  const facts = circumstances(choice.effort.rounds, choice.effort.scale);
  showCircumstances(facts, screen);
  const rows: RowResult[] = [];
  const measures = [
    ...choice.rows.map((row) => [row, runRow] as const),
    ...choice.userRows.map((row) => [row, runUserRow] as const),
  ];
  for (const [row, measure] of measures) {
    screen.live(`measuring ${row.name} ...`);
    const result = await measure(row, choice.effort);
    rows.push(result);
    showRow(result, screen);
    // Written after each row: what was measured survives an interrupt.
    if (choice.json !== undefined)
      await writeFile(choice.json, `${JSON.stringify({ circumstances: facts, rows }, null, 2)}\n`);
  }
  const broken = rows.flatMap((row) =>
    row.state === 'measured'
      ? row.comparisons.filter((one) => one.verdict === 'broken').map((one) => `${row.name} ${one.metric.name}`)
      : [row.name],
  );
  screen.line();
  screen.wrapped(
    broken.length === 0
      ? screen.paint('green', 'No promise is broken.')
      : screen.paint('red', `Broken or not measured: ${broken.join(', ')}`),
    2,
  );
  return broken.length === 0;
}

const screen = new Screen(process.stdout, process.env['NO_COLOR']);
// A bench that is ended ends what it has started: its trees fork without end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(128 + constants.signals[signal]));

try {
  const choice = choose(process.argv.slice(2));
  if (choice.list)
    for (const row of [...choice.rows, ...choice.userRows]) screen.wrapped(`${row.name.padEnd(18)} ${row.what}`, 19);
  else process.exitCode = (await bench(choice, screen)) ? 0 : 1;
} catch (error) {
  screen.endLive();
  const wrongCall = error instanceof UsageError || (error instanceof TypeError && 'code' in error);
  process.stderr.write(
    `bench: ${error instanceof Error ? (wrongCall ? error.message : error.stack) : String(error)}\n`,
  );
  process.exitCode = wrongCall ? 2 : 1;
}
