/** `boxkite cp`: files into a sandbox and out of it. */
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { copyIn, copyInput } from '../copy/copy-in.ts';
import type { CopyOut } from '../copy/copy-out.ts';
import { copyOut, copyToOutput } from '../copy/copy-out.ts';
import type { Place } from '../copy/place.ts';
import { placeOf } from '../copy/place.ts';
import { Progress } from '../copy/progress.ts';
import { EXIT } from '../exit-status.ts';
import { findSandbox } from '../find-sandbox.ts';
import { mistake } from '../options.ts';
import { printable } from '../text.ts';

const options = commonOptions;
type CpCall = Call<typeof options>;

/** Runs `boxkite cp`. */
export const cpCommand: Command = defineCommand({
  name: 'cp',
  words: [{ name: 'SRC' }, { name: 'DST' }],
  about: `Copies a file, or a directory with all that it holds, into a sandbox or out of it. One side is ID:PATH, where relative
paths start at /workspace; the other is a path, or - for standard input or output. A target that is a directory gets
the source under its own name; DIR/. means what is in it. A local name with a colon is written ./a:b.`,
  options,
  examples: [
    ['boxkite cp data.csv build:', 'into /workspace'],
    ['boxkite cp build:out ./results', 'a directory out of it'],
    ['boxkite cp build:out.txt - | less', 'to standard output'],
  ],
  run: async (call) => {
    const [from, to] = [placeOf(call.words[0] ?? ''), placeOf(call.words[1] ?? '')];
    const progress = new Progress(call.io);
    try {
      const target = await copy(call, from, to, progress);
      if (target === BROKEN) return EXIT.brokenPipe;
      progress.end();
      for (const each of progress.omitted) call.say(printable(each));
      if (call.json)
        call.printJson({ target, bytes: progress.bytes, files: progress.files, omitted: progress.omitted });
      return EXIT.ok;
    } finally {
      progress.end();
    }
  },
});

/** The reader of standard output has gone. */
const BROKEN = Symbol('broken pipe');

/** Returns the path that was written; `null` for standard output. */
async function copy(call: CpCall, from: Place, to: Place, progress: Progress): Promise<string | null | typeof BROKEN> {
  const { signal } = call.interrupts;
  if (from.kind === 'sandbox' && to.kind === 'sandbox')
    throw mistake('both sides are in sandboxes', 'Copy by this machine: boxkite cp A:PATH - | boxkite cp - B:PATH.');
  if (to.kind === 'sandbox' && from.kind !== 'sandbox') {
    const { files } = await findSandbox(await call.server(), to.sandbox, signal);
    const work = { files, target: to.path, progress, signal };
    return from.kind === 'local' ? copyIn(from.path, work) : copyInput(call.io.stdin(), work);
  }
  if (from.kind !== 'sandbox') throw mistake('neither side is in a sandbox', 'Write one of them as ID:PATH.');
  if (to.kind === 'standard' && call.json)
    throw mistake('--json does not go with standard output', 'Name a file as the target.');
  const server = await call.server();
  const sandbox = await findSandbox(server, from.sandbox, signal);
  const work = { server, sandbox, source: from.path, progress, signal };
  return to.kind === 'local' ? copyOut(to.path, work) : toOutput(call, work);
}

async function toOutput(call: CpCall, work: CopyOut): Promise<null | typeof BROKEN> {
  const output = call.io.stdout();
  const left = new AbortController();
  output.on('error', () => left.abort());
  try {
    await copyToOutput({ ...work, signal: AbortSignal.any([work.signal, left.signal]) }, output);
  } catch (error) {
    if (!left.signal.aborted) throw error;
  }
  return left.signal.aborted ? BROKEN : null;
}
