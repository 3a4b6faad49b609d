/** Finds the sandbox, or the exec, that a word means: a whole id, a label, or a beginning of an id that only one has. */
import type { ExecSummary, ExecsPort, SandboxPort, SandboxSummary, ServerPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { gather } from './gather.ts';
import { printable } from './text.ts';

const WHOLE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const CANDIDATES_SHOWN = 5;

/** All sandboxes that are not destroyed, oldest first. */
export async function presentSandboxes(server: ServerPort, signal?: AbortSignal): Promise<readonly SandboxSummary[]> {
  const all = await gather(server.sandboxes.list(signal, { active_only: true }));
  return all.filter(({ state }) => state !== 'destroyed');
}

/** Those that are destroyed too, as far as the server remembers them. */
export function allSandboxes(server: ServerPort, signal?: AbortSignal): Promise<readonly SandboxSummary[]> {
  return gather(server.sandboxes.list(signal));
}

/** The ids of what the words mean, each once. Errors: `not_found`, `invalid_request` where a word is ambiguous. */
export async function findIds(
  server: ServerPort,
  words: readonly string[],
  signal?: AbortSignal,
): Promise<readonly string[]> {
  // A whole id needs no list, which may be long.
  if (words.every((word) => WHOLE_ID.test(word))) return [...new Set(words)];
  const present = await presentSandboxes(server, signal);
  const ids = new Set<string>();
  for (const word of words) {
    const id = choose(present, word);
    if (id === null) throw missing(await allSandboxes(server, signal), word);
    ids.add(id);
  }
  return [...ids];
}

/** The id of the one that a word means. */
export async function findId(server: ServerPort, word: string, signal?: AbortSignal): Promise<string> {
  const [id] = await findIds(server, [word], signal);
  if (id === undefined) throw new TypeError('a word finds one sandbox or fails');
  return id;
}

/** Connects to the one that a word means. */
export async function findSandbox(server: ServerPort, word: string, signal?: AbortSignal): Promise<SandboxPort> {
  return server.sandboxes.connect(await findId(server, word, signal), signal);
}

/** Records and execs that stay; a sandbox behind a server has them. */
export function execsOf(sandbox: SandboxPort): ExecsPort {
  if (sandbox.execs !== null) return sandbox.execs;
  throw new BoxkiteError('unsupported', 'this server keeps no records of commands');
}

/** The id of the one that a word means, or `null` where it means none. */
function choose(present: readonly SandboxSummary[], word: string): string | null {
  const whole = present.find(({ id }) => id === word);
  if (whole !== undefined) return whole.id;
  const labelled = present.filter(({ label }) => label === word);
  const found = labelled.length > 0 ? labelled : present.filter(({ id }) => id.startsWith(word));
  const [first, second] = found;
  if (first === undefined) return null;
  if (second === undefined) return first.id;
  throw ambiguous(
    word,
    'sandbox',
    found.map(({ id, label }) => (label === null || label === word ? id : `${id} (${label})`)),
  );
}

function missing(all: readonly SandboxSummary[], word: string): BoxkiteError {
  const gone = all.findLast(({ id, label }) => label === word || id.startsWith(word));
  if (gone === undefined) {
    return new BoxkiteError('not_found', `there is no sandbox ${word}`, { hint: 'See `boxkite ls`.' });
  }
  return destroyed(gone.id, gone.state_reason);
}

/** A sandbox was there and is not any more. */
export function destroyed(id: string, reason: string | null): BoxkiteError {
  const why = reason === null ? '' : ` (${reason})`;
  return new BoxkiteError('not_found', `the sandbox ${id} is destroyed${why}`, {
    hint: 'See `boxkite ls` for those that are there, `boxkite ls --all` for those that were.',
  });
}

function ambiguous(word: string, noun: string, candidates: readonly string[]): BoxkiteError {
  const more = candidates.length - CANDIDATES_SHOWN;
  const shown = candidates.slice(0, CANDIDATES_SHOWN).map(printable).join(', ');
  return new BoxkiteError(
    'invalid_request',
    `${word} means more than one ${noun}: ${shown}${more > 0 ? ` and ${more} more` : ''}`,
    {
      hint: 'Write the id, or more of it.',
      details: { candidates },
    },
  );
}

/** The exec that a word means: its id, a beginning of it, or what stands behind its dash. Errors: `not_found`, `invalid_request` where the word is ambiguous. */
export async function findExec(execs: ExecsPort, word: string, signal?: AbortSignal): Promise<ExecSummary> {
  const all = await execs.list(signal);
  const whole = all.find(({ exec_id }) => exec_id === word);
  if (whole !== undefined) return whole;
  // Ids of one run of the daemon begin alike and end in a number, which is what a person types.
  const found = all.filter(({ exec_id }) => exec_id.startsWith(word) || exec_id.endsWith(`-${word}`));
  const [first, second] = found;
  if (first === undefined) {
    throw new BoxkiteError('not_found', `there is no exec ${word}`, { hint: 'See `boxkite ps --all ID`.' });
  }
  if (second === undefined) return first;
  throw ambiguous(
    word,
    'exec',
    found.map(({ exec_id }) => exec_id),
  );
}

const SHORTEST_ID = 8;

/** How many characters of their ids tell these apart, at least eight. */
export function shortIdLength(ids: readonly string[]): number {
  const sorted = [...new Set(ids)].sort();
  let length = SHORTEST_ID;
  for (const [index, id] of sorted.entries()) {
    const next = sorted[index + 1] ?? '';
    let same = 0;
    while (same < id.length && id[same] === next[same]) same += 1;
    length = Math.max(length, same + 1);
  }
  return length;
}
