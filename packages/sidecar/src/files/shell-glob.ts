/** Globs as Python's `fnmatch` and `pathlib` read them, in the words of the file agent. */

/**
 * The same pattern where braces are a choice and a bracket that never closes is an error: `{`, `}` and such a bracket are
 * meant as they are.
 */
export function shellGlob(pattern: string): string {
  let out = '';
  for (let at = 0; at < pattern.length; ) {
    const unit = pattern[at] ?? '';
    const end = unit === '[' ? classEnd(pattern, at) : -1;
    if (end > 0) {
      out += pattern.slice(at, end);
      at = end;
      continue;
    }
    out += LITERAL.has(unit) ? `[${unit}]` : unit;
    at += 1;
  }
  return out;
}

/** What `pathlib.Path.rglob` looks for, at any depth; `null` where nothing can match. */
export function deepGlob(pattern: string): string | null {
  const names = pattern
    .trim()
    .split('/')
    .filter((name) => name !== '' && name !== '.');
  if (names.length === 0 || names.includes('..') || pattern.endsWith('/')) return null;
  return ['**', ...names.map((name) => (name === '**' ? name : shellGlob(escaped(name))))].join('/');
}

const LITERAL: ReadonlySet<string> = new Set(['{', '}', '[']);

/** Behind the bracket that closes a class; -1 where none does. A bracket at its very beginning is a member of it. */
function classEnd(pattern: string, from: number): number {
  const first = pattern[from + 1] === '!' ? from + 2 : from + 1;
  const close = pattern.indexOf(']', pattern[first] === ']' ? first + 1 : first);
  return close === -1 ? -1 : close + 1;
}

/** Where a walk matches, a backslash hides what follows it. */
function escaped(name: string): string {
  return name.replaceAll('\\', '\\\\');
}
