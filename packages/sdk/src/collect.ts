import type { CollectedExec, ExecEvent, ExecHandle, ExecRecord } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { OutputCollector } from './output-collector.ts';
import type { ExecResult } from './result.ts';
import { shellStatus } from './result.ts';

/** Reads a command to its end and keeps at most `cap` bytes of each stream. Errors: `aborted`, `runner_lost`. */
export async function collect(handle: ExecHandle, cap: number, signal?: AbortSignal): Promise<ExecResult> {
  const collected = await collectEvents(handle, cap);
  // An abort that came after the end still cancels the call: its caller no longer waits for an answer.
  if (signal?.aborted === true)
    throw new BoxkiteError('aborted', 'the command was cancelled and nothing of it runs', { cause: signal.reason });
  if (collected === null) throw new BoxkiteError('internal', 'the output of a command ended without its record');
  return resultOf(collected);
}

/** Reads events to their end and keeps at most `cap` bytes of each stream; `null` where no record came. */
export async function collectEvents(events: AsyncIterable<ExecEvent>, cap: number): Promise<CollectedExec | null> {
  const streams = { stdout: new OutputCollector(cap), stderr: new OutputCollector(cap) };
  let record: ExecRecord | null = null;
  for await (const event of events) {
    if (event.type === 'output') streams[event.stream].push(event.data);
    else if (event.type === 'gap') streams[event.stream].gap();
    else record = event.record;
  }
  if (record === null) return null;
  return {
    record,
    stdout: streams.stdout.finish(),
    stderr: streams.stderr.finish(),
    stdout_truncated: streams.stdout.truncated,
    stderr_truncated: streams.stderr.truncated,
  };
}

/** What a caller gets of a command that has ended. */
export function resultOf(collected: CollectedExec): ExecResult {
  const { record, stdout, stderr } = collected;
  return {
    ...record,
    ok: record.end === 'exited' && record.exit_code === 0,
    exitCode: shellStatus(record),
    stdout: text(stdout),
    stderr: text(stderr),
    raw: { stdout, stderr },
    stdout_truncated: collected.stdout_truncated,
    stderr_truncated: collected.stderr_truncated,
  };
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function text(bytes: Uint8Array): string {
  return bytes.length === 0 ? '' : decoder.decode(bytes);
}
