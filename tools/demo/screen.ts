/** What the demo writes: lines, one live line where there is a terminal, colours where they are welcome. */
import { stripVTControlCharacters } from 'node:util';

type Paint = 'green' | 'red' | 'dim' | 'bold';

const CODES: Readonly<Record<Paint, number>> = { green: 32, red: 31, dim: 2, bold: 1 };

/** The part of a writable terminal that is needed. */
export interface Terminal {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** Writes to one terminal, pipe or file. */
export class Screen {
  readonly #out: Terminal;
  readonly #colour: boolean;
  #live = false;

  /** @param noColour as NO_COLOR asks: any value that is not empty */
  constructor(out: Terminal, noColour: string | undefined) {
    this.#out = out;
    this.#colour = out.isTTY === true && (noColour === undefined || noColour === '');
  }

  /** Whether `live` overwrites one line; elsewhere it writes nothing. */
  get isLive(): boolean {
    return this.#out.isTTY === true;
  }

  paint(paint: Paint, text: string): string {
    return this.#colour ? `\u001b[${CODES[paint]}m${text}\u001b[0m` : text;
  }

  /** A line that stays. */
  line(text = ''): void {
    this.endLive();
    this.#out.write(`${text}\n`);
  }

  /** Text broken at blanks to 80 columns, its later lines below `indent` blanks. */
  wrapped(text: string, indent: number): void {
    for (const line of wrap(text, 80, indent)) this.line(line);
  }

  /** Shows a line in place of the last live one. */
  live(text: string): void {
    if (!this.isLive) return;
    const width = Math.max(20, (this.#out.columns ?? 80) - 1);
    this.#out.write(`\r\u001b[2K${text.slice(0, width)}`);
    this.#live = true;
  }

  /** Takes the live line away. */
  endLive(): void {
    if (!this.#live) return;
    this.#out.write('\r\u001b[2K');
    this.#live = false;
  }

  /** A heading with an empty line before it. */
  heading(text: string): void {
    this.line();
    this.line(this.paint('bold', text));
  }

  /** Rows with their columns aligned: the first to the left, the others to the right. */
  table(rows: readonly (readonly string[])[]): void {
    const widths: number[] = [];
    for (const row of rows)
      for (const [column, cell] of row.entries())
        widths[column] = Math.max(widths[column] ?? 0, stripVTControlCharacters(cell).length);
    for (const row of rows)
      this.line(
        `  ${row
          .map((cell, column) => pad(cell, widths[column] ?? 0, column > 0))
          .join('   ')
          .trimEnd()}`,
      );
  }
}

function pad(cell: string, width: number, right: boolean): string {
  const blanks = ' '.repeat(width - stripVTControlCharacters(cell).length);
  return right ? blanks + cell : cell + blanks;
}

/** Breaks text at single blanks; runs of blanks are kept, and escape sequences take no room. */
export function wrap(text: string, width: number, indent: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  const lead = /^ */.exec(text)?.[0] ?? '';
  for (const word of text.trim().split(/(?<! ) (?! )/)) {
    const start = lines.length === 0 ? lead : ' '.repeat(indent);
    const next = line === '' ? start + word : `${line} ${word}`;
    if (line !== '' && stripVTControlCharacters(next).length > width) {
      lines.push(line);
      line = ' '.repeat(indent) + word;
    } else line = next;
  }
  return [...lines, line];
}
