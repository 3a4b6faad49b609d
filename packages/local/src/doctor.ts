/** Examines this machine: what the runner tried here, in plain words, each missing piece with its remedy. */
import { BoxkiteError } from '@boxkite/protocol';
import type { ProbeEntry, ProbeReport } from '@boxkite/runner-client';
import { ADVICE } from './doctor-advice.ts';
import type { MachineFacts } from './machine-facts.ts';
import { machineFacts } from './machine-facts.ts';
import type { RunnerPoolOptions } from './runner-pool.ts';
import { RunnerPool } from './runner-pool.ts';
import { openRequest } from './spec.ts';

/** One finding. */
export interface DoctorLine {
  /** The runner's name of it, stable for programs. */
  readonly name: string;
  readonly title: string;
  readonly status: ProbeEntry['status'];
  /** What it is good for, or what follows from its absence. */
  readonly means: string;
  /** What was measured, in the runner's words. */
  readonly detail: string;
  /** What to do; `null` where nothing is to be done. */
  readonly remedy: string | null;
}

/** All findings about one machine. */
export interface DoctorReport {
  /** Whether sandboxes can be made here by this user. */
  readonly sandboxes: boolean;
  /** How sandboxes get their ids; `null` where the runner doesn't start. */
  readonly mode: ProbeReport['mode'] | null;
  readonly kernel: string;
  readonly lines: readonly DoctorLine[];
}

/**
 * Starts a runner, asks what works, makes a sandbox, and ends it. A runner that can't start is a finding, not an error, and
 * so is a sandbox that can't be made where each layer seems to be there.
 */
export async function examineMachine(options: RunnerPoolOptions = {}): Promise<DoctorReport> {
  const facts = machineFacts();
  const runners = new RunnerPool({ ...options, blanks: 0 });
  let report: DoctorReport | null = null;
  try {
    const runner = runners.get('host');
    report = reportOf(await runner.call((client) => client.probe()), facts);
    if (report.sandboxes) {
      await runner.call(async (client) => client.closeSandbox((await client.openSandbox(openRequest({}))).sandbox));
    }
    return report;
  } catch (error) {
    if (!(error instanceof BoxkiteError)) throw error;
    return failedReport(report, error, facts);
  } finally {
    await runners.close();
  }
}

/** The report where a runner did not start (`probed` is `null`), or its sandbox was not made. */
export function failedReport(probed: DoctorReport | null, error: BoxkiteError, facts: MachineFacts): DoctorReport {
  const line = failureLine(error, facts);
  // The runner says of this layer that it started, which the sandbox has refuted.
  const others = probed?.lines.filter(({ name }) => name !== 'root_file_system' && name !== line.name) ?? [];
  return { sandboxes: false, mode: probed?.mode ?? null, kernel: facts.kernel, lines: [line, ...others] };
}

/** The report of what a runner found. */
export function reportOf(probe: ProbeReport, facts: MachineFacts): DoctorReport {
  const lines = probe.layers.map((entry) => lineOf(entry, facts));
  const sandboxes = probe.layers.every(({ name, status }) => status !== 'missing' || ADVICE[name]?.needed !== true);
  return { sandboxes, mode: probe.mode, kernel: facts.kernel, lines };
}

function lineOf(entry: ProbeEntry, facts: MachineFacts): DoctorLine {
  const { name, status, detail } = entry;
  const advice = ADVICE[name];
  const missing = status === 'missing';
  const unneeded = status === 'not_needed' ? advice?.unneeded?.(facts) : undefined;
  return {
    name,
    title: advice?.title ?? name.replaceAll('_', ' '),
    status,
    means: unneeded ?? (missing ? advice?.without : advice?.means) ?? detail,
    detail,
    remedy: missing ? remedyFor(name, facts) : null,
  };
}

function remedyFor(name: string, facts: MachineFacts): string | null {
  return ADVICE[name]?.remedies.find(({ when }) => when === undefined || when(facts))?.text ?? null;
}

/** The runner names the step at which it gave up, which may be one of the probes, or the layer that a sandbox lacks. */
function failureLine(error: BoxkiteError, facts: MachineFacts): DoctorLine {
  const step = String(error.details['step'] ?? error.details['layer'] ?? 'runner');
  return {
    name: step,
    title: ADVICE[step]?.title ?? 'the runner',
    status: 'missing',
    means: 'No sandbox can be made here.',
    detail: error.message,
    remedy: remedyFor(step, facts) ?? remedyFor('user namespace', facts) ?? error.hint,
  };
}

const MODES: Readonly<Record<ProbeReport['mode'], string>> = {
  root: 'as root, each sandbox with a range of user ids of its own',
  id_range: 'as an ordinary user, with a range of user ids (newuidmap)',
  one_id: 'as an ordinary user, with one user id',
};

const MARKS: Readonly<Record<DoctorLine['status'], string>> = { works: 'ok', missing: 'MISSING', not_needed: '-' };

/** The report for people. */
export function formatReport(report: DoctorReport): string {
  /** Titles by the remedy that was first given for them: four limits may want the same thing done. */
  const given = new Map<string, string>();
  const lines = report.lines.flatMap(({ title, status, means, detail, remedy }) => {
    const found = status === 'missing' && detail !== '' && detail !== means ? wrap(`found: ${detail}`) : [];
    const first = remedy === null ? undefined : given.get(remedy);
    if (remedy !== null && first === undefined) given.set(remedy, title);
    // Never wrapped: it may hold a command, which must survive being copied.
    const todo = remedy === null ? [] : [`${INDENT}remedy: ${first === undefined ? remedy : `as for "${first}"`}`];
    return [`${MARKS[status].padEnd(INDENT.length)}${title}`, ...wrap(means), ...found, ...todo];
  });
  const verdict = report.sandboxes
    ? `Sandboxes work here, ${report.mode === null ? '' : MODES[report.mode]}.`
    : 'Sandboxes do NOT work here.';
  return `${[...lines, '', verdict, `Kernel ${report.kernel}.`].join('\n')}\n`;
}

const INDENT = ' '.repeat(9);
const COLUMNS = 80;

/** Breaks a text between words for a narrow terminal. A word that is longer than a line keeps one to itself. */
function wrap(text: string): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= COLUMNS) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`${INDENT}${word}`);
  }
  return lines;
}
