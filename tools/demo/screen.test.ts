import { expect, test } from 'vitest';
import { inParallel } from './parallel.ts';
import { Screen, wrap } from './screen.ts';
import { median, NoSamplesError, percentile } from './statistics.ts';

function capture(
  isTTY: boolean,
  noColour: string | undefined,
): { readonly screen: Screen; readonly text: () => string } {
  let text = '';
  const screen = new Screen({ isTTY, columns: 40, write: (part: string) => (text += part) }, noColour);
  return { screen, text: () => text };
}

test('a live line is shown on a terminal only, and is taken away before the next line', () => {
  const terminal = capture(true, undefined);
  terminal.screen.live('x'.repeat(100));
  terminal.screen.line('end');
  expect(terminal.text()).toBe(`\r\u001b[2K${'x'.repeat(39)}\r\u001b[2Kend\n`);
  const pipe = capture(false, undefined);
  pipe.screen.live('working');
  pipe.screen.line('end');
  expect(pipe.text()).toBe('end\n');
});

test.each([
  [true, undefined, true],
  [true, '', true],
  [true, '1', false],
  [false, undefined, false],
])('colour on a terminal %s with NO_COLOR %s: %s', (isTTY, noColour, coloured) => {
  const { screen } = capture(isTTY, noColour);
  expect(screen.paint('red', 'x') !== 'x').toBe(coloured);
});

test('lines are broken at blanks, and colours take no room', () => {
  expect(wrap('  one two three', 9, 4)).toEqual(['  one two', '    three']);
  expect(wrap('\u001b[31mone\u001b[0m two', 7, 0)).toHaveLength(1);
});

test('columns are aligned', () => {
  const { screen, text } = capture(false, undefined);
  screen.table([
    ['a', '1'],
    ['long', '100'],
  ]);
  expect(text()).toBe('  a        1\n  long   100\n');
});

test('order statistics', () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(percentile([5, 1, 4, 2, 3], 0.5)).toBe(3);
  expect(percentile([5, 1, 4, 2, 3], 0.95)).toBe(5);
  expect(percentile([5, 1, 4, 2, 3], 1)).toBe(5);
  expect(() => percentile([], 0.5)).toThrow(NoSamplesError);
});

test('at most the given number of tasks run at once, results in order', async () => {
  let running = 0;
  let most = 0;
  const results = await inParallel([5, 1, 3, 2, 4], 2, async (ms) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, ms));
    running -= 1;
    return ms;
  });
  expect(results).toEqual([5, 1, 3, 2, 4]);
  expect(most).toBe(2);
});

test('a failed task starts no more and lets the running ones end', async () => {
  const started: number[] = [];
  const ended: number[] = [];
  const all = inParallel([1, 2, 3, 4], 2, async (item) => {
    started.push(item);
    if (item === 1) throw new TypeError('first');
    await new Promise((resolve) => setTimeout(resolve, 5));
    ended.push(item);
  });
  await expect(all).rejects.toThrow('first');
  expect(started).toEqual([1, 2]);
  expect(ended).toEqual([2]);
});
