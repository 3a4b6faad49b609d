import type { Effective, EndReason, ExecRecord } from '@boxkite/protocol';
import type { Ended } from './answers.ts';
import { signalName } from './signals.ts';

const ENDS: readonly EndReason[] = ['exited', 'signaled', 'timed_out', 'out_of_memory', 'killed', 'lost'];
const REASONS: readonly (string | null)[] = [null, 'cpu_limit', 'requested', 'sandbox_closed', 'init_died'];

/** The record of an exec from the runner's `Ended`, whose numbers the decoder has checked. */
export function recordOf(ended: Ended, execId: string, effective: Effective): ExecRecord {
  const end = ENDS[ended.end - 1] ?? 'lost';
  return {
    exec_id: execId,
    end,
    exit_code: end === 'exited' ? ended.exitCode : null,
    signal: ended.signal === 0 ? null : signalName(ended.signal),
    reason: REASONS[ended.cause] ?? null,
    stdout_bytes: ended.stdoutBytes,
    stderr_bytes: ended.stderrBytes,
    duration_ms: ended.durationUs / 1000,
    usage: { cpu_ms: ended.cpuUs === null ? null : ended.cpuUs / 1000, memory_peak_bytes: ended.memoryPeak },
    effective,
  };
}
