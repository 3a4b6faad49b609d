/** Tables of text for a terminal or a pipe. */
import type { Paint, Tone } from './style.ts';
import { displayWidth, fit } from './text.ts';

/** One column of a table. */
export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Gives way where a line is longer than the terminal; at least this many columns stay. */
  readonly shrinkTo?: number;
  /** Never narrower, so that a live table keeps its shape. */
  readonly least?: number;
}

/** A cell; a text alone is plain. Printable: what comes from outside has passed `printable`. */
export type Cell = string | { readonly text: string; readonly tone: Tone };

const GAP = 2;

/** The lines of a table with its heading. `width`: columns of the terminal, `null` where lines may be of any length. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  width: number | null,
  paint: Paint,
): string[] {
  const widths = columns.map(({ title, least }, index) =>
    Math.max(least ?? 0, title.length, ...rows.map((row) => displayWidth(textOf(row[index])))),
  );
  if (width !== null) shrink(columns, widths, width);
  const heading = columns.map(({ title }) => ({ text: title, tone: 'heading' as const }));
  return [heading, ...rows].map((row) => line(columns, row, widths, width, paint));
}

function textOf(cell: Cell | undefined): string {
  return typeof cell === 'string' ? cell : (cell?.text ?? '');
}

/** Takes what is too much from the columns that give way, the widest first. */
function shrink(columns: readonly Column[], widths: number[], width: number): void {
  let over = widths.reduce((sum, each) => sum + each, 0) + GAP * (widths.length - 1) - width;
  while (over > 0) {
    let widest = -1;
    for (const [index, { shrinkTo }] of columns.entries()) {
      const now = widths[index] ?? 0;
      if (shrinkTo !== undefined && now > shrinkTo && (widest === -1 || now > (widths[widest] ?? 0))) widest = index;
    }
    if (widest === -1) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
    over -= 1;
  }
}

function line(
  columns: readonly Column[],
  row: readonly Cell[],
  widths: readonly number[],
  width: number | null,
  paint: Paint,
): string {
  let room = width ?? Number.POSITIVE_INFINITY;
  const parts: string[] = [];
  for (const [index, { align }] of columns.entries()) {
    if (room <= 0) break;
    const cell = row[index] ?? '';
    const most = Math.min(widths[index] ?? 0, room);
    const text = fit(textOf(cell), most);
    const padding = ' '.repeat(Math.max(0, most - displayWidth(text)));
    const painted = typeof cell === 'string' ? text : paint(cell.tone, text);
    const last = index === columns.length - 1;
    parts.push(align === 'right' ? `${padding}${painted}` : last ? painted : `${painted}${padding}`);
    room -= most + GAP;
  }
  return parts.join(' '.repeat(GAP)).trimEnd();
}
