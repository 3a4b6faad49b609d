/** What is known of the daemon of this machine, from its record and from itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import type { DaemonRecord } from './daemon-record.ts';
import { findDaemon, lockHolder } from './daemon-record.ts';
import { getJson, readLocalKey } from './local-http.ts';
import type { DaemonPlaces } from './places.ts';

/** A daemon that runs. */
export interface DaemonStatus {
  readonly pid: number;
  /** `null` where it can't be read. */
  readonly record: DaemonRecord | null;
  readonly places: DaemonPlaces;
  /** The answer of `GET /v1/status`; `null` where it does not answer. */
  readonly answer: Readonly<Record<string, unknown>> | null;
}

const ANSWER_DEADLINE_MS = 5000;
const POLL_MS = 10;

/** `null` where no daemon runs. */
export async function daemonStatus(places: DaemonPlaces): Promise<DaemonStatus | null> {
  const found = findDaemon(places);
  return found === null ? null : { ...found, places, answer: await ask(places) };
}

async function ask(places: DaemonPlaces): Promise<Readonly<Record<string, unknown>> | null> {
  try {
    const signal = AbortSignal.timeout(ANSWER_DEADLINE_MS);
    const { status, body } = await getJson(places, '/v1/status', readLocalKey(places.key), signal);
    return status === 200 && isObject(body) ? body : null;
  } catch {
    // It is starting, ending or busy, which the caller says.
    return null;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A process that is to become the daemon. */
export interface Starting {
  readonly pid: number;
  ended(): boolean;
}

/**
 * Resolves when this process is the daemon and answers; another daemon's answer counts for nothing. Errors: `runner_failed`
 * when it has ended, `state_unavailable` at the deadline.
 */
export async function waitUntilServing(places: DaemonPlaces, starting: Starting, deadlineMs: number): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!starting.ended()) {
    if (lockHolder(places) === starting.pid && (await isHealthy(places, end))) return;
    if (Date.now() > end) throw new BoxkiteError('state_unavailable', 'the daemon does not answer yet');
    await sleep(POLL_MS);
  }
  throw new BoxkiteError('runner_failed', 'the daemon ended at its start');
}

async function isHealthy(places: DaemonPlaces, end: number): Promise<boolean> {
  try {
    const { status } = await getJson(places, '/health', null, AbortSignal.timeout(Math.max(1, end - Date.now())));
    return status === 200;
  } catch {
    // Nobody listens yet.
    return false;
  }
}
