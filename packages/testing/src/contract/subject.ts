/** What the contract suite is run against, and what its parts share. */

import type {
  ExecHandle,
  ExecRecord,
  ExecRequest,
  OutputStream,
  SandboxPort,
  SandboxProvider,
} from '@boxkite/protocol';
import { BoxkiteFailure } from '@boxkite/protocol';

/** One implementation of the port. */
export interface ContractSubject {
  readonly name: string;
  /** Called once before the suite; the provider is closed after it. */
  open(): Promise<SandboxProvider>;
  /** Whether memory limits can be enforced where it runs. */
  readonly memory: boolean;
  /** Whether `workspace: "disk"` can be had. */
  readonly disk: boolean;
}

/** All that a command left. */
export interface Collected {
  readonly record: ExecRecord;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly gaps: number;
}

/** What is done once as soon as standard output has a text. */
export interface When {
  readonly said: string;
  readonly act: () => Promise<void>;
}

/** Reads a handle to its end, and holds it to the rules that every exec obeys. Throws where one is broken. */
export async function readAll(handle: ExecHandle, when?: When): Promise<Collected> {
  const parts: Record<OutputStream, Uint8Array[]> = { stdout: [], stderr: [] };
  const next: Record<OutputStream, number> = { stdout: 0, stderr: 0 };
  let record: ExecRecord | null = null;
  let gaps = 0;
  let acting: Promise<void> | null = null;
  for await (const event of handle) {
    if (record !== null) throw new TypeError('an event followed the end');
    if (event.type === 'ended') {
      record = event.record;
      continue;
    }
    const from = event.type === 'output' ? event.offset : event.from;
    if (from !== next[event.stream]) throw new TypeError(`offset ${from} follows ${next[event.stream]}`);
    next[event.stream] = event.type === 'output' ? from + event.data.length : event.to;
    if (event.type === 'output') parts[event.stream].push(event.data);
    else gaps += 1;
    if (when === undefined || acting !== null || !Buffer.concat(parts.stdout).includes(when.said)) continue;
    acting = when.act();
    acting.catch(() => undefined);
  }
  if (when !== undefined && acting === null) throw new TypeError(`it never said ${JSON.stringify(when.said)}`);
  await acting;
  if (record === null) throw new TypeError('an exec ended without its record');
  if (record.exec_id !== handle.exec_id) throw new TypeError('the record is of another exec');
  return { record, stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), gaps };
}

/** Runs a command to its end. */
export async function runIn(sandbox: SandboxPort, request: ExecRequest, signal?: AbortSignal): Promise<Collected> {
  return await readAll(await sandbox.exec(request, signal));
}

/** Runs a line of `/bin/sh`. */
export async function shIn(sandbox: SandboxPort, line: string, request: Partial<ExecRequest> = {}): Promise<Collected> {
  return await runIn(sandbox, { ...request, argv: ['/bin/sh', '-c', line] });
}

/** The bytes of a stream. */
export async function bytesOf(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const part of parts) all.push(part);
  return Buffer.concat(all);
}

/** All items of a stream. */
export async function itemsOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** The code of the failure that a call ends with. Throws where it succeeds, or fails otherwise. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  const outcome = await outcomeOf(call);
  if (outcome === 'done') throw new TypeError('the call succeeded');
  return outcome;
}

/** The same, or `done`. */
export async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'done';
  } catch (error) {
    if (error instanceof BoxkiteFailure) return error.code;
    throw error;
  }
}
