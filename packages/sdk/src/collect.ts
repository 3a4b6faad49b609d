import type { ExecHandle, ExecRecord } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { OutputCollector } from './output-collector.ts';
import type { ExecResult } from './result.ts';
import { shellStatus } from './result.ts';

/** Reads a command to its end and keeps at most `cap` bytes of each stream. Errors: `aborted`, `runner_lost`. */
export async function collect(handle: ExecHandle, cap: number, signal?: AbortSignal): Promise<ExecResult> {
  const streams = { stdout: new OutputCollector(cap), stderr: new OutputCollector(cap) };
  let record: ExecRecord | null = null;
  for await (const event of handle) {
    if (event.type === 'output') streams[event.stream].push(event.data);
    else if (event.type === 'gap') streams[event.stream].gap();
    else record = event.record;
  }
  // An abort that came after the end still cancels the call: its caller no longer waits for an answer.
  if (signal?.aborted === true)
    throw new BoxkiteError('aborted', 'the command was cancelled and nothing of it runs', { cause: signal.reason });
  if (record === null) throw new BoxkiteError('internal', 'the output of a command ended without its record');
  return result(record, streams);
}

function result(
  record: ExecRecord,
  streams: { readonly stdout: OutputCollector; readonly stderr: OutputCollector },
): ExecResult {
  const raw = { stdout: streams.stdout.finish(), stderr: streams.stderr.finish() };
  return {
    ...record,
    ok: record.end === 'exited' && record.exit_code === 0,
    exitCode: shellStatus(record),
    stdout: text(raw.stdout),
    stderr: text(raw.stderr),
    raw,
    stdout_truncated: streams.stdout.truncated,
    stderr_truncated: streams.stderr.truncated,
  };
}

function text(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
