/** How sandboxes and execs look in tables. */
import type { ExecSummary, SandboxState, SandboxSummary } from '@boxkite/protocol';
import { shellStatus } from '@boxkite/protocol';
import type { Tone } from './style.ts';
import type { Cell, Column } from './table.ts';
import { commandText, durationText, printable, sizeText } from './text.ts';

const STATE_TONES: Readonly<Record<SandboxState, Tone>> = {
  creating: 'warn',
  ready: 'good',
  stopping: 'warn',
  stopped: 'dim',
  failed: 'bad',
  destroyed: 'dim',
};

/** The state with its reason. */
export function stateCell({ state, state_reason }: Pick<SandboxSummary, 'state' | 'state_reason'>): Cell {
  const text = state_reason === null ? state : `${state} (${state_reason})`;
  return { text: printable(text), tone: STATE_TONES[state] ?? 'plain' };
}

/** The first characters of an id. It comes from a server, so that it may hold anything. */
export function idText(id: string, length: number): string {
  return printable(id.slice(0, length));
}

/** The label, or a dash. */
export function labelCell(label: string | null): Cell {
  return label === null ? { text: '-', tone: 'dim' } : printable(label);
}

/** Columns of `boxkite ls`. */
export const sandboxColumns: readonly Column[] = [
  { title: 'ID' },
  { title: 'LABEL', shrinkTo: 8 },
  { title: 'STATE', shrinkTo: 9 },
  { title: 'AGE', align: 'right' },
  { title: 'EXPIRES', align: 'right' },
  { title: 'WORKSPACE' },
];

/** One row of `boxkite ls`. `idLength`: how many characters of the id are shown. */
export function sandboxRow(sandbox: SandboxSummary, idLength: number, now: number): readonly Cell[] {
  const { id, label, created_at, expires_at, destroyed_at, state, workspace, effective } = sandbox;
  const over = state === 'destroyed';
  const size = effective === null ? '' : ` ${sizeText(effective.workspace.bytes)}`;
  const lost = workspace.kept || state === 'creating' ? '' : ' (gone)';
  return [
    idText(id, idLength),
    labelCell(label),
    stateCell(sandbox),
    durationText(now - Date.parse(created_at)),
    over && destroyed_at !== null
      ? { text: `${durationText(now - Date.parse(destroyed_at))} ago`, tone: 'dim' }
      : expiry(state === 'failed' && !workspace.kept ? null : Date.parse(expires_at) - now),
    `${workspace.kind}${over ? '' : lost === '' ? size : lost}`,
  ];
}

const SOON_MS = 5 * 60_000;

/** `left`: `null` where nothing is left that could end. */
function expiry(left: number | null): Cell {
  if (left === null) return { text: '-', tone: 'dim' };
  if (left <= 0) return { text: 'now', tone: 'warn' };
  return { text: durationText(left), tone: left < SOON_MS ? 'warn' : 'plain' };
}

/** An exec with the sandbox that it runs in. */
export interface SandboxExec extends ExecSummary {
  readonly sandbox_id: string;
}

/** Columns of `boxkite ps`. */
export const execColumns: readonly Column[] = [
  { title: 'SANDBOX' },
  { title: 'EXEC' },
  { title: 'STATE' },
  { title: 'TIME', align: 'right' },
  { title: 'OUTPUT', align: 'right' },
  { title: 'COMMAND', shrinkTo: 16 },
];

/** One row of `boxkite ps`. */
export function execRow(exec: SandboxExec, idLength: number, now: number): readonly Cell[] {
  const end = exec.ended_at === null ? now : Date.parse(exec.ended_at);
  return [
    idText(exec.sandbox_id, idLength),
    printable(exec.exec_id),
    endCell(exec),
    durationText(end - Date.parse(exec.started_at)),
    sizeText(exec.stdout_bytes + exec.stderr_bytes),
    commandText(exec.argv),
  ];
}

function endCell({ state, record }: ExecSummary): Cell {
  if (record === null) return { text: state, tone: state === 'running' ? 'good' : 'warn' };
  if (record.end === 'exited')
    return { text: `exited ${shellStatus(record)}`, tone: record.exit_code === 0 ? 'dim' : 'warn' };
  const by = record.end === 'signaled' ? (record.signal ?? 'signaled') : record.end.replaceAll('_', ' ');
  return { text: printable(by), tone: 'bad' };
}
