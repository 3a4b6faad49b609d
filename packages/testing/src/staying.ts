/** Programs that stay: started, heard once, and ended when the test says so. */
import type { ExecHandle, ExecRecord, ExecRequest } from '@boxkite/protocol';
import { within } from './patience.ts';
import type { Executor } from './program.ts';

/** A program that has said its first line and runs on. */
export interface Staying {
  readonly handle: ExecHandle;
  /** Standard output up to the first line's end at least. */
  readonly first: string;
  /** Ends standard input and reads on to the program's end. Output includes `first`. */
  readonly finish: () => Promise<{ readonly stdout: string; readonly record: ExecRecord }>;
  /** Reads on until the output holds `text`. */
  readonly until: (text: string) => Promise<string>;
  /** Reads on to the end without ending standard input. */
  readonly drain: () => Promise<{ readonly stdout: string; readonly record: ExecRecord }>;
}

/** Starts a program with a streamed standard input and waits for its first line. */
export async function startStaying(
  sandbox: Executor,
  argv: readonly string[],
  options: Omit<ExecRequest, 'argv'> = {},
): Promise<Staying> {
  const handle = await sandbox.exec({ stdin: 'stream', timeout_ms: within(60_000), ...options, argv });
  const iterator = handle[Symbol.asyncIterator]();
  let stdout = '';
  let record: ExecRecord | undefined;
  const step = async (): Promise<boolean> => {
    const next = await iterator.next();
    if (next.done === true) return false;
    const { value } = next;
    if (value.type === 'ended') record = value.record;
    if (value.type === 'output' && value.stream === 'stdout') stdout += Buffer.from(value.data).toString('latin1');
    return record === undefined;
  };
  const until = async (text: string): Promise<string> => {
    while (!stdout.includes(text)) {
      if (!(await step()))
        throw new Error(
          `the program ended as ${record?.end} ${record?.exit_code} before it wrote ${JSON.stringify(text)}: ${stdout.slice(-500)}`,
        );
    }
    return stdout;
  };
  const drain = async (): Promise<{ readonly stdout: string; readonly record: ExecRecord }> => {
    while (await step());
    if (record === undefined) throw new Error('the events ended without an end');
    return { stdout, record };
  };
  const first = await until('\n');
  return {
    handle,
    first,
    until,
    drain,
    finish: async () => {
      await handle.closeStdin();
      return drain();
    },
  };
}
