/** Text for people: names that can't steer a terminal, widths, sizes and times. */

/** C0, C1, DEL, line and paragraph separators, and what changes the direction of text. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\p{Cs}/gu;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;
const WITHOUT_WIDTH = /\p{M}|\u200b|\u200c|\u200d/u;
const ELLIPSIS = '…';

/** Control characters of a name that a caller or an agent chose must not reach the terminal. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** Columns that a printable text takes on a terminal. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += widthOf(character);
  return width;
}

function widthOf(character: string): number {
  if (character < '\u0300') return 1;
  if (WITHOUT_WIDTH.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** The text, cut at `width` columns with an ellipsis where it is longer. */
export function fit(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of text) {
    used += widthOf(character);
    if (used > width - 1) break;
    kept += character;
  }
  return width < 1 ? '' : `${kept}${ELLIPSIS}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** A size such as `1.5 MiB`; `-` where it is not known. */
export function sizeText(bytes: number | null): string {
  if (bytes === null) return '-';
  let value = bytes;
  let unit = 0;
  // 1023.96 would be shown as 1024.
  while (value >= 1023.95 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A length of time in its one or two largest units, such as `2h05m`. */
export function durationText(ms: number): string {
  const span = Math.max(0, ms);
  if (span < MINUTE) return `${Math.floor(span / SECOND)}s`;
  if (span < HOUR) return `${Math.floor(span / MINUTE)}m${two((span % MINUTE) / SECOND)}s`;
  if (span < DAY) return `${Math.floor(span / HOUR)}h${two((span % HOUR) / MINUTE)}m`;
  return `${Math.floor(span / DAY)}d${two((span % DAY) / HOUR)}h`;
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, '0');
}

/** A command line as a person could type it. */
export function commandText(argv: readonly string[]): string {
  return printable(argv.map(quoted).join(' '));
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** `1 file`, `2 files`. */
export function countText(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? noun : plural}`;
}
