import { Buffer } from 'node:buffer';
import type { ExecEvent, ExecRecord } from '@boxkite/protocol';

export interface Collected {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly gaps: readonly ExecEvent[];
  readonly record: ExecRecord;
}

/** Takes all events of a handle and checks that they are one continuous sequence with one end. */
export async function collect(execution: AsyncIterable<ExecEvent>): Promise<Collected> {
  const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  const gaps: ExecEvent[] = [];
  let record: ExecRecord | null = null;
  for await (const event of execution) {
    if (record !== null) throw new Error('an event after the end');
    if (event.type === 'output') parts[event.stream].push(event.data);
    else if (event.type === 'gap') gaps.push(event);
    else record = event.record;
  }
  if (record === null) throw new Error('no end');
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), gaps, record };
}

/** The error that a promise rejects with. */
export async function failureOf(
  promise: Promise<unknown>,
): Promise<{ code: string; details: Readonly<Record<string, unknown>>; message: string }> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error && 'code' in error && 'details' in error) {
      return { code: String(error.code), details: error.details as Record<string, unknown>, message: error.message };
    }
    throw error;
  }
  throw new Error('it did not fail');
}
