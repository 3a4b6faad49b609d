/** `make demo`: runs real programs in sandboxes and shows what holds. Composition root and only reader of the environment. */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { SandboxProvider } from '@boxkite/protocol';
import { cacheDirectory } from './cache-directory.ts';
import { loadHumanEval } from './dataset.ts';
import { effectiveLines } from './effective-lines.ts';
import { DemoFailure } from './failure.ts';
import { makeOffenders } from './offenders.ts';
import { showOffender } from './offenders-stage.ts';
import { parseProblems } from './problems.ts';
import { buildProgram, type Program, STANDARD_LIBRARY_ALONE } from './program.ts';
import { commonEffective, runPrograms, showPrograms, WIDTH } from './programs-stage.ts';
import { openProduct } from './providers.ts';
import { PYTHON } from './run-sandboxed.ts';
import { Screen } from './screen.ts';
import { openTargets } from './targets.ts';

const FIELDS_HINT =
  'Each line is a JSON object with the strings task_id, prompt, canonical_solution, test, entry_point.';

/** A twin without its mounts still has the five roots, `/tmp` among them, so the canary lies elsewhere. */
const CANARY_PARENT = '/var/tmp';

const CACHE = cacheDirectory(process.env['XDG_CACHE_HOME']);

/** The file that the user named: `make demo FILE=…`. */
function ownFile(argv: readonly string[]): string | undefined {
  const usage = 'Use: make demo, or make demo FILE=mine.jsonl';
  let positionals: readonly string[];
  try {
    ({ positionals } = parseArgs({ args: [...argv], options: {}, allowPositionals: true }));
  } catch (error) {
    throw new DemoFailure(error instanceof Error ? error.message : String(error), usage, { cause: error });
  }
  if (positionals.length > 1) throw new DemoFailure('the demo takes one file', usage);
  return positionals[0];
}

async function readOwnFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new DemoFailure(
      `${path} can't be read: ${error instanceof Error ? error.message : String(error)}`,
      FIELDS_HINT,
      {
        cause: error,
      },
    );
  }
}

async function loadPrograms(file: string | undefined, screen: Screen): Promise<readonly Program[]> {
  const text = file === undefined ? await loadHumanEval(CACHE, (line) => screen.line(line)) : await readOwnFile(file);
  const { problems, bad } = parseProblems(text);
  for (const { line, reason } of bad) screen.wrapped(`${screen.paint('red', 'skipped')} line ${line}: ${reason}`, 4);
  const options = file === undefined ? STANDARD_LIBRARY_ALONE : [];
  if (problems.length === 0) throw new DemoFailure(`${file ?? 'the data set'} holds no program to run`, FIELDS_HINT);
  return problems.map((problem) => buildProgram(problem, randomBytes(8).toString('hex'), options));
}

async function showMachine(
  programs: readonly Program[],
  provider: SandboxProvider,
  screen: Screen,
  signal: AbortSignal,
): Promise<boolean> {
  const directory = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'boxkite-demo-'));
  try {
    screen.line(
      screen.paint(
        'bold',
        `${count(programs.length, 'program')}, each in a fresh sandbox of its own, ${WIDTH} at once`,
      ),
    );
    const result = await runPrograms(programs, provider, directory, screen, signal);
    showPrograms(result, screen);
    const common = commonEffective(result.runs);
    if (common !== undefined) {
      screen.heading('In force, as measured');
      for (const [name, value] of effectiveLines(common.effective)) screen.wrapped(`  ${name.padEnd(20)} ${value}`, 23);
      screen.line(
        `  ${common.same ? 'the same in each of them' : screen.paint('red', 'NOT the same in each of them')}`,
      );
    }
    const held = common !== undefined && Object.values(common.effective.layers).every((refused) => refused);
    return common?.same === true && held && result.runs.every((run) => run.passed);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function showOffenders(provider: SandboxProvider, screen: Screen, signal: AbortSignal): Promise<boolean> {
  await using targets = await openTargets(CANARY_PARENT);
  let good = true;
  for (const offender of makeOffenders(targets))
    good = (await showOffender(offender, provider, screen, signal)) && good;
  return good;
}

/** Resolves to whether everything went as it must. */
async function demo(screen: Screen, signal: AbortSignal): Promise<boolean> {
  if (!existsSync(PYTHON))
    throw new DemoFailure(`${PYTHON} is missing: the demo runs Python programs`, 'apt-get install python3');
  const programs = await loadPrograms(ownFile(process.argv.slice(2)), screen);
  const provider = openProduct();
  try {
    const allPassed = await showMachine(programs, provider, screen, signal);
    const allStopped = await showOffenders(provider, screen, signal);
    screen.line();
    screen.line(
      allPassed && allStopped
        ? screen.paint('green', 'All programs passed, and the three offenders were stopped.')
        : screen.paint('red', 'Not everything went as it must: see above.'),
    );
    return allPassed && allStopped;
  } finally {
    await provider.close();
  }
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const hint = 'hint' in error && typeof error.hint === 'string' ? `\n  ${error.hint}` : '';
  return hint === '' ? (error.stack ?? error.message) : `demo: ${error.message}${hint}`;
}

const interrupt = new AbortController();
process.once('SIGINT', () => interrupt.abort());
process.once('SIGTERM', () => interrupt.abort());
process.stdout.on('error', (error: Error) => {
  // The reader of a pipe went away (`| head`): end in order, so that nothing stays behind.
  if (!('code' in error) || error.code !== 'EPIPE') throw error;
  interrupt.abort();
});
const screen = new Screen(process.stdout, process.env['NO_COLOR']);
try {
  process.exitCode = (await demo(screen, interrupt.signal)) ? 0 : 1;
} catch (error) {
  screen.endLive();
  process.stderr.write(
    interrupt.signal.aborted ? 'demo: interrupted; nothing is left running\n' : `${explain(error)}\n`,
  );
  process.exitCode = interrupt.signal.aborted ? 130 : error instanceof DemoFailure ? 2 : 1;
}
