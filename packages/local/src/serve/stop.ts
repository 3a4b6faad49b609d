/** Ends a daemon in order, and says what became of its sandboxes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { findDaemon, isAlive, lockHolder, startTicks } from './daemon-record.ts';
import { removeDeadRuns } from './directories.ts';
import { getJson, readLocalKey } from './local-http.ts';
import type { DaemonPlaces } from './places.ts';

/** What a stop did. */
export interface StopReport {
  readonly pid: number;
  /** Ids of sandboxes whose `disk` workspace is kept; they can be started again. */
  readonly kept: readonly string[];
  /** Ids of sandboxes whose files were in memory and are gone. */
  readonly lost: readonly string[];
  /** Whether the two lists could be had from the daemon. */
  readonly listed: boolean;
}

const POLL_MS = 20;
const LIST_DEADLINE_MS = 5000;

interface Listed {
  readonly kept: readonly string[];
  readonly lost: readonly string[];
}

/**
 * Asks the daemon of these places to end, and resolves when its process is gone and its lock is free. Its process is told
 * by the lock that it holds and the moment of its start, never by a name. Errors: `daemon_unreachable` where none runs,
 * `state_unavailable` where it does not end in time.
 */
export async function stopDaemon(places: DaemonPlaces, deadlineMs: number): Promise<StopReport> {
  const found = findDaemon(places);
  if (found === null) {
    throw new BoxkiteError('daemon_unreachable', `no daemon runs with the data directory ${places.data}`, {
      hint: 'There is nothing to stop. A daemon with another data directory is named by --data.',
    });
  }
  const ticks = startTicks(found.pid);
  const listed = await activeSandboxes(places);
  if (ticks === null || lockHolder(places) !== found.pid)
    return { pid: found.pid, ...(listed ?? NOTHING), listed: listed !== null };
  signal(found.pid);
  const end = Date.now() + deadlineMs;
  while (isAlive({ pid: found.pid, start_ticks: ticks })) {
    if (Date.now() > end) {
      throw new BoxkiteError('state_unavailable', `the daemon, process ${found.pid}, is still ending`, {
        hint: 'Wait, look at its log, or call again with a longer --timeout.',
        details: { pid: found.pid },
      });
    }
    await sleep(POLL_MS);
  }
  removeDeadRuns(places.runtime);
  return { pid: found.pid, ...(listed ?? NOTHING), listed: listed !== null };
}

const NOTHING: Listed = { kept: [], lost: [] };

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ESRCH') return;
    throw new BoxkiteError('already_running', `the daemon, process ${pid}, may not be stopped by you`, {
      hint: 'Stop it as the user who started it.',
      details: { pid },
      cause: error,
    });
  }
}

/** `null` where the daemon does not answer; it is stopped all the same. */
async function activeSandboxes(places: DaemonPlaces): Promise<Listed | null> {
  try {
    const path = '/v1/sandboxes?active_only=true';
    const answer = await getJson(places, path, readLocalKey(places.key), AbortSignal.timeout(LIST_DEADLINE_MS));
    if (answer.status !== 200 || !Array.isArray(answer.body)) return null;
    const ready = answer.body.filter(isReady);
    const ids = (kind: string): readonly string[] =>
      ready.filter(({ workspace }) => workspace.kind === kind).map(({ id }) => id);
    return { kept: ids('disk'), lost: ids('tmpfs') };
  } catch {
    // Whatever keeps it from answering is no reason to let it run.
    return null;
  }
}

interface Ready {
  readonly id: string;
  readonly workspace: { readonly kind: string };
}

function isReady(item: unknown): item is Ready {
  return (
    typeof item === 'object' &&
    item !== null &&
    'id' in item &&
    typeof item.id === 'string' &&
    /^[\w-]{1,64}$/.test(item.id) &&
    'state' in item &&
    (item.state === 'ready' || item.state === 'creating') &&
    'workspace' in item &&
    typeof item.workspace === 'object' &&
    item.workspace !== null &&
    'kind' in item.workspace
  );
}
