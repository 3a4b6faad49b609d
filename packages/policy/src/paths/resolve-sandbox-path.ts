import { utf8Length } from '../text-encodings.ts';

/** What is done with a path. */
export type PathOperation = 'read' | 'write';

/** Why a path is refused. */
export type PathProblem = 'invalid' | 'outside' | 'read_only';

/** The path that is meant, or why there is none. */
export type PathVerdict =
  | { readonly ok: string }
  | {
      readonly error: PathProblem;
      /** What is wrong and what to do, for the author of the path. */
      readonly reason: string;
    };

const HOME = '/workspace';
const READ_ONLY = ['/mnt/user-data/uploads', '/mnt/skills'];
const ROOTS = [HOME, '/mnt/user-data/outputs', '/tmp', ...READ_ONLY];
const SHORT_FORMS: ReadonlyMap<string, string> = new Map([
  ['uploads', '/mnt/user-data/uploads'],
  ['outputs', '/mnt/user-data/outputs'],
  ['skills', '/mnt/skills'],
]);
/** Bytes of a path, and of a component, in UTF-8. */
const LONGEST_PATH = 4096;
const LONGEST_COMPONENT = 255;

/**
 * Says which path in a sandbox the text of a caller means, and whether it may be read or written there. The lexical half
 * only: it looks at no file, so that a link may lead elsewhere. The result means itself when it is resolved again.
 */
export function resolveSandboxPath(path: string, op: PathOperation): PathVerdict {
  if (op !== 'read' && op !== 'write') return refuse('invalid', 'the operation is read or write');
  const problem = unfitText(path);
  if (problem !== null) return refuse('invalid', problem);
  const text = trimBlanks(path).replaceAll('\\', '/');
  if (text === '') return refuse('invalid', 'the path is empty');
  const parts = text.split('/');
  if (parts.some((part) => part.length * 3 > LONGEST_COMPONENT && utf8Length(part) > LONGEST_COMPONENT)) {
    return refuse('invalid', `a component of the path is longer than ${LONGEST_COMPONENT} bytes`);
  }
  const resolved = resolveDots(absolute(text));
  // Given as a path again, it would lose the blank and mean another file.
  if (resolved.endsWith(' ')) return refuse('invalid', 'the last name of the path ends in a blank: rename the file');
  // A folder in front of it makes it longer, and no call of the system takes it then.
  if (resolved.length * 3 > LONGEST_PATH && utf8Length(resolved) > LONGEST_PATH) {
    return refuse('invalid', `the path in full is longer than ${LONGEST_PATH} bytes`);
  }
  if (!ROOTS.some((root) => isAtOrBelow(resolved, root))) {
    return refuse('outside', `the path lies outside the sandbox’s folders: use one below ${ROOTS.join(', ')}`);
  }
  const fixed = READ_ONLY.find((root) => isAtOrBelow(resolved, root));
  if (op === 'write' && fixed !== undefined) {
    return refuse('read_only', `${fixed} can only be read: write below ${HOME}, /mnt/user-data/outputs or /tmp`);
  }
  return { ok: resolved };
}

function unfitText(path: unknown): string | null {
  if (typeof path !== 'string') return 'the path is no text';
  if (path.length > LONGEST_PATH || utf8Length(path) > LONGEST_PATH)
    return `the path is longer than ${LONGEST_PATH} bytes`;
  if (/[\0-\x1f\x7f]/.test(path)) return 'the path has a control character in it';
  if (!path.isWellFormed()) return 'the path has half of a character in it';
  return null;
}

function trimBlanks(path: string): string {
  let [from, to] = [0, path.length];
  while (path.charAt(from) === ' ') from += 1;
  while (to > from && path.charAt(to - 1) === ' ') to -= 1;
  return path.slice(from, to);
}

/** The path with its beginning written out; dots are still in it. */
function absolute(text: string): string {
  if (text === '/' || text === 'workspace' || text === '.') return HOME;
  if (text.startsWith('/')) {
    const [, first = '', ...rest] = text.split('/');
    const full = SHORT_FORMS.get(first);
    return full === undefined ? text : [full, ...rest].join('/');
  }
  let from = text.startsWith('workspace/') ? 'workspace/'.length : 0;
  while (text.startsWith('./', from)) from += 2;
  return `${HOME}/${text.slice(from)}`;
}

function resolveDots(path: string): string {
  const kept: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') kept.pop();
    else if (part !== '' && part !== '.') kept.push(part);
  }
  return `/${kept.join('/')}`;
}

function isAtOrBelow(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}

function refuse(error: PathProblem, reason: string): PathVerdict {
  return { error, reason };
}
