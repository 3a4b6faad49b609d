/** One picture of `boxkite top`: lines that fit a terminal. */
import type { SandboxState } from '@boxkite/protocol';
import { shortIdLength } from '../find-sandbox.ts';
import { idText, labelCell, stateCell } from '../sandbox-table.ts';
import type { Paint } from '../style.ts';
import type { Cell, Column } from '../table.ts';
import { tableLines } from '../table.ts';
import { countText, fit, sizeText } from '../text.ts';
import type { Sample, SampledSandbox } from './samples.ts';

/** How a sample is shown. */
export interface View {
  /** `null`: a pipe or file, where nothing is cut. */
  readonly size: { readonly columns: number; readonly rows: number } | null;
  /** Rows of the table above the first that is shown. */
  readonly scroll: number;
  /** What is wrong at the moment. */
  readonly problem: string | null;
  readonly paint: Paint;
}

/** Lines that are not rows of the table: summary, empty or problem, heading, foot. */
const OTHER_LINES = 4;
const NUMBERS: readonly Column[] = [
  { title: 'STATE', least: 9 },
  { title: 'CPU %', align: 'right', least: 6 },
  { title: 'MEMORY', align: 'right', least: 8 },
  { title: 'PROCS', align: 'right', least: 5 },
  { title: 'EXECS', align: 'right', least: 5 },
];
const GAP = 2;
const SMALLEST_LABEL = 8;

/** How many rows of the table a terminal shows. */
export function rowsShown(rows: number): number {
  return Math.max(1, rows - OTHER_LINES);
}

/** The lines of the picture; at most `rows` of them, each shorter than `columns`. */
export function frameLines(sample: Sample, view: View): readonly string[] {
  const { size, paint } = view;
  const { sandboxes } = sample;
  // One less: a line that fills the last column leaves terminals of two minds about where the cursor is.
  const width = size === null ? null : size.columns - 1;
  const summary = summaryText(sample);
  const table = tableOf(sandboxes, width, view);
  if (size === null) return [summary, '', ...table];
  const first = view.scroll + 1;
  const last = Math.min(sandboxes.length, view.scroll + rowsShown(size.rows));
  const span =
    sandboxes.length === 0 ? 'no sandbox' : `${first}-${last} of ${sandboxes.length.toLocaleString('en-US')}`;
  const filler = Array.from({ length: Math.max(0, size.rows - OTHER_LINES + 1 - table.length) }, () => '');
  return [
    paint('heading', fit(summary, size.columns - 1)),
    view.problem === null ? '' : paint('bad', fit(view.problem, size.columns - 1)),
    ...table,
    ...filler,
    paint('dim', fit(`${span}   q quit   arrows, PgUp, PgDn scroll`, size.columns - 1)),
  ].slice(0, size.rows);
}

function tableOf(sandboxes: readonly SampledSandbox[], width: number | null, view: View): readonly string[] {
  const { size, scroll, paint } = view;
  const idLength = width === null ? Number.POSITIVE_INFINITY : shortIdLength(sandboxes.map(({ id }) => id));
  const shown = size === null ? sandboxes : sandboxes.slice(scroll, scroll + rowsShown(size.rows));
  return tableLines(
    columnsFor(width, idLength),
    shown.map((each) => row(each, idLength)),
    width,
    paint,
  );
}

/** The label takes what is left, so that no column moves when its neighbours' content changes. */
function columnsFor(width: number | null, idLength: number): readonly Column[] {
  const others = NUMBERS.reduce((sum, { least }) => sum + (least ?? 0) + GAP, 0);
  const label = width === null ? 0 : Math.max(SMALLEST_LABEL, width - others - idLength - GAP);
  return [
    { title: 'ID', ...(width === null ? {} : { least: idLength }) },
    { title: 'LABEL', least: label, shrinkTo: Math.min(label, SMALLEST_LABEL) },
    ...NUMBERS,
  ];
}

function row({ id, label, state, cpu_percent, usage }: SampledSandbox, idLength: number): readonly Cell[] {
  return [
    idText(id, idLength),
    labelCell(label),
    stateCell({ state, state_reason: null }),
    cpu_percent === null ? '-' : cpu_percent.toFixed(1),
    sizeText(usage?.memory_bytes ?? null),
    String(usage?.processes ?? '-'),
    String(usage?.execs ?? '-'),
  ];
}

const STATES_SHOWN: readonly SandboxState[] = ['creating', 'ready', 'stopping', 'stopped', 'failed'];

function summaryText({ at, sandboxes }: Sample): string {
  const states = STATES_SHOWN.flatMap((state) => {
    const count = sandboxes.filter((each) => each.state === state).length;
    return count === 0 ? [] : [`${count.toLocaleString('en-US')} ${state}`];
  });
  const cpu = total(sandboxes.map(({ cpu_percent }) => cpu_percent));
  const memory = total(sandboxes.map(({ usage }) => usage?.memory_bytes ?? null));
  const execs = total(sandboxes.map(({ usage }) => usage?.execs ?? null)) ?? 0;
  const parts = [
    new Date(at).toTimeString().slice(0, 8),
    `${countText(sandboxes.length, 'sandbox', 'sandboxes')}${states.length === 0 ? '' : `: ${states.join(', ')}`}`,
    countText(execs, 'exec'),
    `CPU ${cpu === null ? '-' : `${cpu.toFixed(0)} %`}`,
    `memory ${sizeText(memory)}`,
  ];
  return parts.join('   ');
}

/** The sum of what is known; `null` where nothing is. */
function total(values: readonly (number | null)[]): number | null {
  return values.reduce((sum, value) => (value === null ? sum : (sum ?? 0) + value), null);
}
