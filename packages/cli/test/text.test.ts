/** Text on a terminal: what can be shown, how wide it is, and what is left of a program's modes. */
import { expect, test } from 'vitest';
import { shortIdLength } from '../src/find-sandbox.ts';
import { tableLines } from '../src/table.ts';
import { TerminalModes } from '../src/terminal-modes.ts';
import { commandText, displayWidth, durationText, fit, printable, sizeText } from '../src/text.ts';

test.each([
  ['plain ü 漢 🙂', 'plain ü 漢 🙂'],
  ['a\u001b[2Jb', 'a\\x1b[2Jb'],
  ['\u009b31m\u0000\u007f', '\\x9b31m\\x00\\x7f'],
  ['\u202egpj.exe\u2066\u2028', '\\u202egpj.exe\\u2066\\u2028'],
  ['\ud800', '\\ud800'],
])('%j is shown as %s', (text, shown) => {
  expect(printable(text)).toBe(shown);
});

test.each([
  ['abc', 3],
  ['漢字', 4],
  ['🙂', 2],
  ['e\u0301', 1],
  ['', 0],
])('%s takes %i columns', (text, width) => {
  expect(displayWidth(text)).toBe(width);
});

test.each([
  ['abcdef', 6, 'abcdef'],
  ['abcdef', 5, 'abcd…'],
  ['漢字漢字', 6, '漢字…'],
  ['漢字漢字', 4, '漢…'],
  ['ab', 1, '…'],
  ['ab', 0, ''],
])('%s in %i columns is %s', (text, width, shown) => {
  expect(fit(text, width)).toBe(shown);
  expect(displayWidth(shown)).toBeLessThanOrEqual(width);
});

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [1_048_575, '1.0 MiB'],
  [150 << 20, '150 MiB'],
  [5 * 2 ** 40, '5.0 TiB'],
  [null, '-'],
])('%s bytes are %s', (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});

test.each([
  [-5, '0s'],
  [59_999, '59s'],
  [60_000, '1m00s'],
  [3_599_999, '59m59s'],
  [3_600_000, '1h00m'],
  [86_400_000, '1d00h'],
  [90_000_000 * 10, '10d10h'],
])('%i ms are %s', (ms, text) => {
  expect(durationText(ms)).toBe(text);
});

test('a command is shown as it could be typed, and steers nothing', () => {
  expect(commandText(['sh', '-c', "echo 'a b'", '', 'x=1', '\u001b[2J'])).toBe(
    "sh -c 'echo '\\''a b'\\''' '' x=1 '\\x1b[2J'",
  );
});

test('a table gives way where it may, and nowhere else', () => {
  const columns = [{ title: 'ID' }, { title: 'LABEL', shrinkTo: 4 }, { title: 'N', align: 'right' as const }];
  const rows = [
    ['1', 'a long label', '5'],
    ['2', '漢字漢字漢字漢字', '500'],
  ];
  const plain = (_tone: string, text: string): string => text;
  expect(tableLines(columns, rows, null, plain)).toEqual([
    'ID  LABEL               N',
    '1   a long label        5',
    '2   漢字漢字漢字漢字  500',
  ]);
  expect(tableLines(columns, rows, 16, plain)).toEqual(['ID  LABEL      N', '1   a long…    5', '2   漢字漢…  500']);
  for (const line of tableLines(columns, rows, 9, plain)) expect(displayWidth(line)).toBeLessThanOrEqual(9);
});

test('ids are as short as tells them apart, eight characters at least', () => {
  expect(shortIdLength([])).toBe(8);
  expect(shortIdLength(['aaaaaaaaaa', 'bbbbbbbbbb'])).toBe(8);
  expect(shortIdLength(['aaaaaaaaaa', 'aaaaaaaaab', 'c'])).toBe(10);
});

test.each([
  ['nothing', ['plain text'], ''],
  ['colours alone', ['\u001b[31mred'], '\u001b[0m'],
  ['what is on', ['\u001b[?1049h\u001b[?25l'], '\u001b[?1049l\u001b[?25h\u001b[0m'],
  ['what was turned off again', ['\u001b[?1049h', '\u001b[?1049l'], '\u001b[0m'],
  ['several at once', ['\u001b[?1000;1006h'], '\u001b[?1000l\u001b[?1006l\u001b[0m'],
  ['what is cut', ['\u001b', '[', '?20', '04', 'h'], '\u001b[?2004l\u001b[0m'],
  ['what it does not know', ['\u001b[?9999h'], '\u001b[0m'],
] as const)('after %s a terminal is set back', (_name, pieces, wanted) => {
  const modes = new TerminalModes();
  for (const piece of pieces) modes.see(Buffer.from(piece));
  expect(modes.restoration()).toBe(wanted);
});
