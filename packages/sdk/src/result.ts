import type { ExecRecord } from '@boxkite/protocol';

/** A command that has ended, with its output. Fields in snake_case are the record's, as on the wire. */
export interface ExecResult extends ExecRecord {
  /** Exit status 0. */
  readonly ok: boolean;
  /** As a shell reports it: the exit status; 128 + the signal's number; 124 after the time limit; 137 out of memory or killed. */
  readonly exitCode: number;
  /** Standard output as UTF-8; bytes that are not are shown as U+FFFD. A terminal's whole output is here. */
  readonly stdout: string;
  readonly stderr: string;
  /** The same output as bytes. */
  readonly raw: { readonly stdout: Uint8Array; readonly stderr: Uint8Array };
  /** Output was longer than `max_output_bytes`, or bytes were dropped: its first and last bytes are kept, and `stdout_bytes` counts all. */
  readonly stdout_truncated: boolean;
  readonly stderr_truncated: boolean;
}

export { shellStatus } from '@boxkite/protocol';
