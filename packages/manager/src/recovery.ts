/** What a manager does at its start: records against what is there. Nothing is lost, and no leftover stays. */
import type { Lifecycle, Report } from './lifecycle.ts';
import type { Session } from './session.ts';
import type { ObservedSandbox, Substrate } from './substrate.ts';

/** What a recovery looks at. */
export interface RecoveryParts {
  readonly substrate: Substrate;
  readonly lifecycle: Lifecycle;
  readonly report: Report;
}

/** What a recovery found. */
export interface Recovered {
  /** Kept workspaces that no record names: for the operator to look at, nothing removes them. */
  readonly unknownWorkspaces: readonly string[];
}

const AT_ONCE = 16;

/** Brings every session to what is true. Errors: those of the substrate's lists; a single sandbox's trouble is reported. */
export async function recover(sessions: readonly Session[], parts: RecoveryParts): Promise<Recovered> {
  const { substrate, report } = parts;
  const observed = new Map((await substrate.list()).map((found) => [found.id, found]));
  const kept = new Set(await substrate.workspaces());
  const known = new Set(sessions.map(({ row }) => row.id));
  await inTurns(sessions, async (session) => {
    try {
      await settle(session, observed.get(session.row.id), kept.has(session.row.id), parts);
    } catch (error) {
      report('recovery', error, session.row.id);
    }
  });
  const strangers = [...observed.values()].filter(({ id }) => !known.has(id));
  await inTurns(strangers, async ({ handle, id }) => {
    try {
      // A workspace that no record names is the operator's to remove.
      await (kept.has(id) ? substrate.stop(handle) : substrate.destroy(handle));
    } catch (error) {
      report('a sandbox that no record names', error, id);
    }
  });
  return { unknownWorkspaces: [...kept].filter((id) => !known.has(id)) };
}

async function settle(
  session: Session,
  found: ObservedSandbox | undefined,
  kept: boolean,
  parts: RecoveryParts,
): Promise<void> {
  const { substrate, lifecycle } = parts;
  const { row } = session;
  if (found !== undefined) lifecycle.attach(session, found.handle, null);
  switch (row.state) {
    case 'ready': {
      if (found?.state !== 'ready') return lose(session, found, lifecycle);
      const { port } = await substrate.endpoint(found.handle);
      session.port = port;
      return;
    }
    case 'creating':
      // Nobody was told that it works. What was there before its start is kept.
      if (row.goal === 'create') return lifecycle.destroy(session, 'start_failed');
      await session.record({ state: 'stopping', state_reason: row.state_reason, goal: 'stop' });
      return lifecycle.retry(session);
    case 'stopping':
      return lifecycle.retry(session);
    case 'stopped':
    case 'failed':
      if (found !== undefined) await session.record({ state: 'stopping', goal: 'stop' });
      if (found !== undefined) return lifecycle.retry(session);
      return kept ? undefined : lifecycle.fail(session, 'workspace_lost');
    case 'destroyed':
      return;
    default:
      return row.state satisfies never;
  }
}

/** Its runner ended while nobody looked, or is about to. */
async function lose(session: Session, found: ObservedSandbox | undefined, lifecycle: Lifecycle): Promise<void> {
  if (found === undefined) return lifecycle.fail(session, 'runner_lost');
  if (session.row.kind === 'tmpfs') return lifecycle.destroy(session, 'runner_lost');
  await session.record({ state: 'stopping', state_reason: 'runner_lost', goal: 'stop' });
  return lifecycle.retry(session);
}

/** Runs so many at once. */
export async function inTurns<T>(items: Iterable<T>, run: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items];
  const worker = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await run(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
