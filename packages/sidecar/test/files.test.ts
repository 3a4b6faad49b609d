/** Views, edits and globs as functions of text. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contentTypeOf } from '../src/files/content-type.ts';
import { applyEdit, whyNoMatch } from '../src/files/edit.ts';
import { countLines, LineView, mostShown } from '../src/files/line-view.ts';
import { placesOf } from '../src/files/present.ts';
import { deepGlob, shellGlob } from '../src/files/shell-glob.ts';

/** What a view of whole text is, in the plainest words. */
function expected(text: string, range: readonly [number, number] | null): string {
  if (range === null) return text;
  const lines = text.split('\n');
  const last = range[1] === -1 ? lines.length : range[1];
  return lines.slice(Math.max(1, range[0]) - 1, Math.max(0, last)).join('\n');
}

describe('a view', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\r', '\u{1f600}'), maxLength: 60 });
  const range = fc.option(fc.tuple(fc.integer({ min: -2, max: 12 }), fc.integer({ min: -2, max: 12 })));

  it('is that of the lines, however the text is cut', () => {
    fc.assert(
      fc.property(text, range, fc.array(fc.nat(20)), (whole, lines, cuts) => {
        const view = new LineView(lines);
        let at = 0;
        for (const cut of cuts) {
          view.push(whole.slice(at, at + cut));
          at += cut;
        }
        view.push(whole.slice(at));
        expect(view.finish()).toEqual({ content: expected(whole, lines), truncated: false });
      }),
    );
  });

  it('ends at its bound, and with no half of a character', () => {
    for (const before of [0, 1]) {
      const view = new LineView(null);
      view.push('x'.repeat(before));
      for (let at = 0; at < 200; at += 1) view.push('\u{1f600}'.repeat(500));
      const { content, truncated } = view.finish();
      expect([truncated, content.isWellFormed(), view.isDone]).toEqual([true, true, true]);
      expect(mostShown - content.length).toBeLessThan(2);
    }
    const full = new LineView(null);
    full.push('x'.repeat(mostShown));
    expect(full.finish().truncated).toBe(false);
  });

  it('counts line feeds', () => {
    fc.assert(
      fc.property(text, (whole) => {
        expect(countLines(Buffer.from(whole))).toBe(whole.split('\n').length - 1);
      }),
    );
  });
});

describe('an edit', () => {
  const bytes = fc.uint8Array({ maxLength: 40, max: 3 });
  const some = fc.string({ unit: fc.constantFrom('\u0000', '\u0001', '\u0002'), minLength: 1, maxLength: 3 });

  it('is what replacing text is, byte for byte', () => {
    fc.assert(
      fc.property(bytes, some, some, (before, oldText, newText) => {
        const { after, occurrences } = applyEdit(Buffer.from(before), { oldText, newText, all: true });
        const text = Buffer.from(before).toString('latin1');
        expect(occurrences).toBe(text.split(oldText).length - 1);
        expect((after ?? Buffer.from(before)).toString('latin1')).toBe(text.replaceAll(oldText, () => newText));
      }),
    );
  });

  it('takes what it puts as it is', () => {
    const edit = { oldText: 'a', newText: "$&$'$1", all: false };
    expect(applyEdit(Buffer.from('xay'), edit).after?.toString()).toBe("x$&$'$1y");
  });

  it('refuses millions of places, and files of gigabytes, before it makes them', () => {
    const before = Buffer.alloc(1_000_001, 'x');
    const edit = (size: number) => () => applyEdit(before, { oldText: 'x', newText: 'y'.repeat(size), all: true });
    expect(edit(1)).toThrow(/more than 1000000 times/);
    const fewer = () => applyEdit(before.subarray(0, 10_000), { oldText: 'x', newText: 'y'.repeat(10_000), all: true });
    expect(fewer).toThrow(expect.objectContaining({ code: 'file_over_limit' }));
  });

  it('says which line ends a file has', () => {
    const why = (file: string, oldText: string) => whyNoMatch(Buffer.from(file), { oldText, newText: '', all: false });
    expect(why('a\r\nb', 'a\nb')).toContain('CRLF');
    expect(why('a\nb', 'a\r\nb')).toContain('LF');
    expect(why('a\nb', 'c\nd')).toBeNull();
    expect(why('ab', 'c')).toBeNull();
  });
});

describe('a glob', () => {
  it.each([
    ['*.py', '**/*.py'],
    ['/a/*.py', '**/a/*.py'],
    ['./a//b', '**/a/b'],
    ['a{1,2}', '**/a[{]1,2[}]'],
    ['a\\b', '**/a\\\\b'],
    ['**/x', '**/**/x'],
    ['', null],
    ['  ', null],
    ['a/../b', null],
    ['a/', null],
    ['.', null],
  ])('%j at any depth is %j', (pattern, glob) => {
    expect(deepGlob(pattern)).toBe(glob);
  });

  it.each([
    ['[ab]', '[ab]'],
    ['[', '[[]'],
    ['[!]a]x', '[!]a]x'],
    ['[]', '[[]]'],
    ['a[{]', 'a[{]'],
    ['{a}', '[{]a[}]'],
  ])('%j of a shell is %j', (pattern, glob) => {
    expect(shellGlob(pattern)).toBe(glob);
  });
});

describe('what is presented', () => {
  it('goes to no place twice', () => {
    const path = fc
      .tuple(
        fc.constantFrom('/workspace/a', '/workspace/b', '/mnt/user-data/outputs', '/mnt/user-data/outputs/a'),
        fc.constantFrom('x', 'x.md', 'x-2.md', '.x', 'x.tar.gz'),
      )
      .map((parts) => parts.join('/'));
    fc.assert(
      fc.property(fc.uniqueArray(path), (paths) => {
        const places = placesOf(paths);
        expect(new Set(places.map(({ to }) => to)).size).toBe(paths.length);
        for (const { from, to } of places) {
          expect(to.startsWith('/mnt/user-data/outputs/')).toBe(true);
          if (from.startsWith('/mnt/user-data/outputs/')) expect(to).toBe(from);
        }
      }),
    );
  });

  it.each([
    ['a.md', '', 'text/markdown'],
    ['A.JPG', '', 'image/jpeg'],
    ['a.unknown', '', 'text/plain'],
    ['a', 'caf\u00e9', 'text/plain'],
    ['a', 'a\0b', 'application/octet-stream'],
    ['constructor.constructor', 'x', 'text/plain'],
  ])('%s with %j is %s', (name, sample, type) => {
    expect(contentTypeOf(`/workspace/${name}`, Buffer.from(sample))).toBe(type);
  });

  it('is text although its sample ends within a character', () => {
    const sample = Buffer.from('\u{1f600}'.repeat(10)).subarray(0, 38);
    expect(contentTypeOf('/x', sample)).toBe('text/plain');
    expect(contentTypeOf('/x', Buffer.from([0x61, 0xff]))).toBe('application/octet-stream');
  });
});
