/** Answers of `/v1` as the port's values. What is called for every command is checked by hand, the rest by its schema. */
import type { CollectedExec, Effective, EndReason, ExecUsage, FileInfo, SandboxSummary, v1 } from '@boxkite/protocol';
import type { HttpClient } from './client.ts';

const ENDS: Readonly<Record<EndReason, true>> = {
  exited: true,
  signaled: true,
  timed_out: true,
  out_of_memory: true,
  killed: true,
  lost: true,
};

type Fields = Readonly<Record<string, unknown>>;

/** The answer to `POST …/exec`. Errors: `unexpected_answer`. */
export function collectedExec(value: unknown, client: HttpClient): CollectedExec {
  if (
    !isObject(value) ||
    !isRecord(value) ||
    typeof value['stdout'] !== 'string' ||
    typeof value['stderr'] !== 'string'
  )
    throw client.unexpected('is no record of a command');
  return {
    record: {
      exec_id: value['exec_id'] as string,
      end: value['end'] as EndReason,
      exit_code: value['exit_status'] as number | null,
      signal: (value['signal'] ?? null) as string | null,
      reason: (value['reason'] ?? null) as string | null,
      stdout_bytes: value['stdout_bytes'] as number,
      stderr_bytes: value['stderr_bytes'] as number,
      duration_ms: value['duration_ms'] as number,
      usage: value['usage'] as ExecUsage,
      effective: value['effective'] as Effective,
    },
    stdout: outputBytes(value['stdout'], value['stdout_base64'], client),
    stderr: outputBytes(value['stderr'], value['stderr_base64'], client),
    stdout_truncated: value['stdout_truncated'] === true,
    stderr_truncated: value['stderr_truncated'] === true,
  };
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether everything is there that a caller may read without looking first. */
function isRecord(value: Fields): boolean {
  const { exec_id, end, exit_status, stdout_bytes, stderr_bytes, duration_ms, usage, effective } = value;
  return (
    typeof exec_id === 'string' &&
    typeof end === 'string' &&
    Object.hasOwn(ENDS, end) &&
    (exit_status === null || typeof exit_status === 'number') &&
    typeof stdout_bytes === 'number' &&
    typeof stderr_bytes === 'number' &&
    typeof duration_ms === 'number' &&
    isObject(usage) &&
    isObject(effective)
  );
}

const NO_BYTES = new Uint8Array(0);
const encoder = new TextEncoder();

function outputBytes(text: string, base64: unknown, client: HttpClient): Uint8Array {
  if (base64 === undefined) return text === '' ? NO_BYTES : encoder.encode(text);
  if (typeof base64 !== 'string') throw client.unexpected('has output that is not base64');
  try {
    return fromBase64(base64);
  } catch (error) {
    throw client.unexpected('has output that is not base64', error);
  }
}

function fromBase64(text: string): Uint8Array {
  if (typeof Buffer === 'function') return Buffer.from(text, 'base64');
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Bytes as base64. */
export function toBase64(bytes: Uint8Array): string {
  if (typeof Buffer === 'function')
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** The port's part of a sandbox of `/v1`. */
export function sandboxSummary(sandbox: v1.Sandbox): SandboxSummary {
  const { id, state, state_reason, label, created_at, destroyed_at, expires_at, workspace, effective } = sandbox;
  return { id, state, state_reason, label, created_at, destroyed_at, expires_at, workspace, effective };
}

/** The port's part of an entry of a directory. */
export function listedFile(entry: v1.FileInfoJson): FileInfo {
  const { name, path, type, size, mode, modified_ms, target } = entry;
  return { name, path, type, size, mode, modified_ms, ...(target === undefined ? {} : { target }) };
}
