/** `boxkite run`: one command in a fresh sandbox that ends with it. */

import type { SandboxPort, ServerPort } from '@boxkite/protocol';
import { BoxkiteFailure } from '@boxkite/protocol';
import { allowedCommands } from '../allowed-commands.ts';
import { AttachedCommand, attachedByDefault } from '../attached-command.ts';
import type { Call, Command } from '../command.ts';
import { defineCommand } from '../command.ts';
import { LEASE_MINUTES, Lease } from '../lease.ts';
import type { RunRequest } from '../run-options.ts';
import { runOptions, runRequest } from '../run-options.ts';
import { commandText, fit } from '../text.ts';

/** Columns of a command that lists show. */
const LABEL_WIDTH = 60;

/** Runs `boxkite run` with the words after it and returns the exit status. */
export const runCommand: Command = defineCommand({
  name: 'run',
  program: true,
  about: `Runs a command in a fresh sandbox and removes the sandbox when it has ended. The command has NO NETWORK, sees none of
your files but a copy of what --copy names, and nothing of your environment but what --env gives it.

Output is live and input is passed on; where both are a terminal, the command gets a terminal. The sandbox comes from
the daemon where one runs (see \`boxkite serve --help\`), else it is this program's own.`,
  options: runOptions,
  examples: [
    ["boxkite run -- python3 -c 'print(6 * 7)'", 'one program'],
    ['boxkite run --copy . --timeout 60 -- sh test.sh', 'with a copy of this directory, for a minute at most'],
    ['seq 10 | boxkite run -- wc -l', 'with standard input'],
  ],
  notes: `Exit status: the command's; 128 + N when signal N ended it; 124 after --timeout; 137 when it ran out of memory or was
killed; 126 and 127 when it can't be executed or found; 2 when boxkite refuses what was asked for; 1 at a fault.
With --json standard output has nothing but one JSON object: the record, or \`error\`.`,
  run: async (call) => {
    const asked = runRequest(call.options, call.program);
    const sandbox_allowed_commands = await allowedCommands(call.options.text('allowed-commands'));
    const request = { ...asked, spec: { ...asked.spec, sandbox_allowed_commands } };
    // From the first moment: a signal ends what is being made.
    const { signal } = call.interrupts;
    const server = request.private ? null : await call.services.findServer(call.io);
    const status = server === null ? null : await runOnServer(server, request, call);
    if (status !== null) return status;
    const provider = await call.services.privateProvider(call.io, (note) => call.say(note));
    try {
      return await attached(await provider.create(request.spec, signal), request, call);
    } finally {
      await provider.close();
    }
  },
});

type RunCall = Call<typeof runOptions>;

/** `null`: nobody answers at the daemon's socket, which is what a killed daemon leaves, and nothing was made. */
async function runOnServer(server: ServerPort, request: RunRequest, call: RunCall): Promise<number | null> {
  try {
    const sandbox = await make(server, request, call);
    return sandbox === null ? null : await inLeased(sandbox, server, request, call);
  } finally {
    await server.close();
  }
}

async function inLeased(sandbox: SandboxPort, server: ServerPort, request: RunRequest, call: RunCall): Promise<number> {
  const lease = new Lease(server.sandboxes, sandbox.id);
  try {
    return await attached(sandbox, request, call);
  } finally {
    lease.end();
    await remove(sandbox);
  }
}

async function make(server: ServerPort, request: RunRequest, call: RunCall): Promise<SandboxPort | null> {
  const spec = { ...request.spec, label: labelOf(request), lifetime_minutes: LEASE_MINUTES };
  try {
    return await server.create(spec, call.interrupts.signal);
  } catch (error) {
    const named = (call.io.env['BOXKITE_URL'] ?? '') !== '';
    if (!named && error instanceof BoxkiteFailure && error.code === 'daemon_unreachable') return null;
    throw error;
  }
}

/** One that has ended by itself meanwhile is as gone as it has to be. */
async function remove(sandbox: SandboxPort): Promise<void> {
  try {
    await sandbox.destroy();
  } catch (error) {
    if (!(error instanceof BoxkiteFailure) || error.code !== 'not_found') throw error;
  }
}

function labelOf(request: RunRequest): string {
  return fit(`run: ${commandText(request.argv)}`, LABEL_WIDTH);
}

function attached(sandbox: SandboxPort, request: RunRequest, call: RunCall): Promise<number> {
  const { argv, cwd, env, timeout_ms, json } = request;
  const command = { argv, cwd, env, timeout_ms, ...attachedByDefault(call.io, json) };
  return new AttachedCommand(command, call.io, call.interrupts).run(sandbox);
}
