/** `boxkite logs`: what an exec wrote. */
import type { ExecEvent, ExecSummary, ExecsPort, OutputRange } from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure } from '@boxkite/protocol';
import { gapText } from '../attached-command.ts';
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { execsOf, findExec, findSandbox } from '../find-sandbox.ts';
import { jsonEvents } from '../json-events.ts';
import { LiveOutput } from '../live-output.ts';
import { mistake } from '../options.ts';

const options = {
  follow: { value: null, short: 'f', help: 'go on until the exec has ended' },
  stream: { value: 'NAME', help: '`stdout` or `stderr` alone' },
  'since-offset': { value: 'N', help: 'begin at this byte of --stream' },
  ...commonOptions,
  json: { value: null, help: 'print one JSON object a line: output, gap, exit' },
} as const;

type LogsCall = Call<typeof options>;

/** Runs `boxkite logs`. */
export const logsCommand: Command = defineCommand({
  name: 'logs',
  words: [{ name: 'ID' }, { name: 'EXEC', optional: true }],
  about: `Prints what an exec has written, by default the one that was started last: its standard output on standard output, its
standard error on standard error. Of long output the first and the last bytes are kept; what is missing is said on
standard error.`,
  options,
  examples: [
    ['boxkite logs -f build', 'follow the last exec of the sandbox `build`'],
    ['boxkite logs --stream stdout build 4 > out', 'the standard output of the exec 4'],
  ],
  run: async (call) => {
    const range = rangeOf(call);
    const { signal } = call.interrupts;
    const [word = '', exec] = call.words;
    const execs = execsOf(await findSandbox(await call.server(), word, signal));
    const { exec_id } = exec === undefined ? await lastOf(execs, signal) : await findExec(execs, exec, signal);
    const left = new AbortController();
    const both = AbortSignal.any([signal, left.signal]);
    try {
      return await show(call, execs.output(exec_id, range, both), () => left.abort());
    } catch (error) {
      if (left.signal.aborted && error instanceof BoxkiteFailure && error.code === 'aborted') return EXIT.brokenPipe;
      throw error;
    }
  },
});

function rangeOf({ options: given }: LogsCall): OutputRange {
  const only = given.choice('stream', ['stdout', 'stderr']);
  const offset = given.whole('since-offset');
  if (offset !== undefined && only === undefined)
    throw mistake('--since-offset counts the bytes of one stream', 'Add --stream stdout or --stream stderr.');
  return {
    follow: given.has('follow'),
    ...(only === undefined ? {} : { only }),
    ...(only === undefined || offset === undefined ? {} : { [only]: offset }),
  };
}

async function lastOf(execs: ExecsPort, signal: AbortSignal): Promise<ExecSummary> {
  const last = (await execs.list(signal)).at(-1);
  if (last !== undefined) return last;
  throw new BoxkiteError('not_found', 'nothing has run in this sandbox yet', {
    hint: 'Run something by `boxkite exec ID -- COMMAND`.',
  });
}

async function show(call: LogsCall, events: AsyncIterable<ExecEvent>, leave: () => void): Promise<number> {
  const output = new LiveOutput(call.io, {
    brokenPipe: leave,
    ended: () => undefined,
    gap: (stream, from, to) => call.say(gapText(stream, from, to)),
  });
  await output.pass(call.json ? asLines(events) : events);
  return output.brokenPipe ? EXIT.brokenPipe : EXIT.ok;
}

/** The events as lines of JSON, which are all standard output. */
async function* asLines(events: AsyncIterable<ExecEvent>): AsyncGenerator<ExecEvent, void, undefined> {
  for await (const line of jsonEvents(events))
    yield { type: 'output', stream: 'stdout', offset: 0, data: Buffer.from(`${JSON.stringify(line)}\n`) };
}
