/** Waiting for a change of one directory. */
import { BoxkiteError } from '@boxkite/protocol';
import type { FileEvent, RunnerFiles } from '@boxkite/runner-client';

/** A change, in the reference's words; `overflow` where so much happened that the directory has to be looked at. */
export interface Change {
  /** The bare name. */
  readonly path: string;
  readonly event: 'created' | 'modified' | 'deleted' | 'moved_from' | 'moved_to' | 'overflow';
}

/** What comes so soon after the first change belongs to it. */
const GATHER_MS = 20;
const MOST_CHANGES = 4096;

const WORDS: Readonly<Record<FileEvent['kind'], Change['event'] | null>> = {
  created: 'created',
  modified: 'modified',
  removed: 'deleted',
  moved_from: 'moved_from',
  moved_to: 'moved_to',
  attributes: null,
  overflow: 'overflow',
};

/** The first changes, or none after `seconds`. Errors: `bad_request` for what is no directory. */
export async function watchOnce(
  files: RunnerFiles,
  path: string,
  seconds: number,
  signal: AbortSignal,
): Promise<readonly Change[]> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), seconds * 1000);
  const either = AbortSignal.any([signal, over.signal]);
  const changes: Change[] = [];
  const events = files.agentStream(
    path,
    async function* (client) {
      yield* await client.watch(path, { signal: either });
    },
    either,
  );
  try {
    for await (const { kind, path: name } of events) {
      const event = WORDS[kind];
      // Attributes alone are no change of a file, and nothing of the directory itself is one of what it holds.
      if (event === null || (name === '' && event !== 'overflow')) continue;
      changes.push({ path: name, event });
      if (changes.length === 1) setTimeout(() => over.abort(), GATHER_MS).unref();
      if (changes.length === MOST_CHANGES) break;
    }
  } catch (error) {
    // A directory that is gone by now has told of its last changes.
    if (signal.aborted || (changes.length === 0 && !over.signal.aborted)) throw explained(error, path);
  } finally {
    clearTimeout(timer);
  }
  return changes;
}

function explained(error: unknown, path: string): unknown {
  if (!(error instanceof BoxkiteError)) return error;
  if (error.code !== 'not_a_directory' && error.code !== 'file_not_found') return error;
  return new BoxkiteError('bad_request', `${path} is not a directory`, {
    hint: 'Watch a directory; a link to one is not followed.',
    details: { field: 'path' },
    cause: error,
  });
}
