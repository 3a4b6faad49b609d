/** `boxkite exec`: a command in a sandbox that is there. */
import type { SandboxPort } from '@boxkite/protocol';
import type { AttachedRequest } from '../attached-command.ts';
import { AttachedCommand, attachedByDefault } from '../attached-command.ts';
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { execsOf, findSandbox } from '../find-sandbox.ts';
import { mistake } from '../options.ts';
import { printable } from '../text.ts';

const options = {
  interactive: { value: null, short: 'i', help: 'pass standard input on; alone: without a terminal' },
  tty: { value: null, short: 't', help: 'give the command a terminal; alone: without input' },
  cwd: { value: 'DIR', help: 'where the command starts, inside the sandbox (/workspace)' },
  env: { value: 'NAME=VALUE', help: 'a variable for the command; may be repeated', repeatable: true },
  timeout: { value: 'SECONDS', help: 'kill everything after this time; the exit status is then 124' },
  memory: { value: 'MB', help: "memory of this command, at most the sandbox's" },
  detach: { value: null, short: 'd', help: 'print the id of the exec and let it run; see `boxkite logs`' },
  ...commonOptions,
} as const;

/** Runs `boxkite exec`. */
export const execCommand: Command = defineCommand({
  name: 'exec',
  words: [{ name: 'ID' }],
  program: true,
  about: `Runs a command in a sandbox. Output is live and input is passed on; where both are a terminal, the command gets a
terminal. A connection that is cut is made again, and output goes on where it was.`,
  options,
  examples: [
    ['boxkite exec build -- make -j2', 'in the sandbox with the label `build`'],
    ['tar c . | boxkite exec 3f2a -- tar x', 'with standard input'],
    ['boxkite exec -d build -- python3 -m http.server', 'in the background'],
  ],
  notes: `Exit status: the command's, as of \`boxkite run\`. Ctrl-C is for the command; a second one kills it, but where the
command has a terminal every Ctrl-C is a key like others: \`boxkite kill\` ends it from elsewhere.`,
  run: async (call) => {
    if (call.program.length === 0)
      throw mistake('no command is given', 'Write `boxkite exec ID -- COMMAND`, or `boxkite sh ID` for a shell.');
    const request = requestOf(call);
    const { interrupts } = call;
    const sandbox = await findSandbox(await call.server(), call.words[0] ?? '', interrupts.signal);
    if (call.options.has('detach')) return detach(call, sandbox, request);
    return new AttachedCommand(request, call.io, interrupts).run(sandbox);
  },
});

type ExecCall = Call<typeof options>;

function requestOf({ options: given, program, io, json }: ExecCall): AttachedRequest {
  const memory = given.whole('memory');
  return {
    argv: program,
    cwd: given.text('cwd'),
    env: given.variables('env'),
    timeout_ms: given.timeout('timeout'),
    limits: memory === undefined ? undefined : { memory_mb: memory },
    ...attachedByDefault(io, json),
    ...asked(given.has('interactive'), given.has('tty'), given.has('detach'), json),
  };
}

/** What `-i` and `-t` ask for, where one of them is given. */
function asked(input: boolean, tty: boolean, detached: boolean, json: boolean): Partial<AttachedRequest> {
  if (detached && (input || tty))
    throw mistake('--detach goes with neither -i nor -t', 'Nobody would be there to type or to look.');
  if (json && tty) throw mistake('--json does not go with -t', 'A terminal shows output as it comes.');
  return input || tty ? { input, tty } : {};
}

async function detach(call: ExecCall, sandbox: SandboxPort, request: AttachedRequest): Promise<number> {
  const { argv, cwd, env, timeout_ms, limits } = request;
  const started = await execsOf(sandbox).start({
    argv,
    cwd,
    env,
    timeout_ms,
    ...(limits === undefined ? {} : { limits }),
  });
  const id = printable(started.exec_id);
  await call.printOnce(id, { sandbox_id: sandbox.id, ...started }, `the exec ${id} was started and goes on`);
  return EXIT.ok;
}
