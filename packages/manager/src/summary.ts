import type { SandboxSummary } from '@boxkite/protocol';
import type { Clock } from './clock.ts';
import type { Grant, SandboxRow } from './store.ts';

const MINUTE = 60_000;
/** How far the shown end of a life may be from the true one: what rounding and a slewed clock come to. */
const SLACK = 2_000;

/** Time from now on. */
export function grant(clock: Clock, minutes: number): Grant {
  return { wall: clock.wall(), monotonic: clock.monotonic(), boot: clock.boot, minutes };
}

/** The monotonic end of a grant that may be of a former process, or of a former boot of the machine. */
export function deadlineOf(row: SandboxRow, clock: Clock): number {
  const { wall, monotonic, boot, minutes } = row.grant;
  if (boot === clock.boot) return monotonic + minutes * MINUTE;
  // A clock that was set back gives nobody more than what was granted.
  const elapsed = Math.max(0, clock.wall() - wall);
  return clock.monotonic() + minutes * MINUTE - elapsed;
}

/** What is shown of a row. `deadline` is absent where it has none any more. */
export function summaryOf(row: SandboxRow, clock: Clock, deadline?: number): SandboxSummary {
  return {
    id: row.id,
    state: row.state,
    state_reason: row.state_reason,
    label: row.label,
    created_at: iso(row.created_at),
    destroyed_at: row.destroyed_at === null ? null : iso(row.destroyed_at),
    expires_at: iso(deadline === undefined ? row.expires_at : shownEnd(row, clock, deadline)),
    workspace: { kind: row.kind, kept: hasFiles(row) },
    effective: row.effective,
  };
}

function hasFiles(row: SandboxRow): boolean {
  return row.kind === 'disk' ? row.kept : row.state === 'ready';
}

/** The wall clock may have jumped since the end was written down. */
function shownEnd(row: SandboxRow, clock: Clock, deadline: number): number {
  const now = clock.wall() + (deadline - clock.monotonic());
  return Math.abs(now - row.expires_at) > SLACK ? now : row.expires_at;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
