/** `boxkite create`: a sandbox that stays. */
import { maxLifetimeMinutes } from '@boxkite/protocol';
import { allowedCommands, allowedCommandsOption } from '../allowed-commands.ts';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { mistake } from '../options.ts';
import { limitOptions, limitsOf } from '../sandbox-options.ts';
import { printable } from '../text.ts';

const options = {
  label: { value: 'TEXT', help: 'a name for people; commands take it in place of the id' },
  workspace: { value: 'KIND', help: '`disk` keeps its files over `stop` and restarts of the daemon (tmpfs)' },
  rootfs: { value: 'NAME', help: "a root file system that the daemon knows, instead of the host's programs" },
  ...limitOptions,
  'allowed-commands': allowedCommandsOption,
  'workspace-mb': { value: 'MB', help: 'room for files (1024)' },
  inodes: { value: 'N', help: 'number of files (262144)' },
  lifetime: { value: 'MINUTES', help: 'destroy it by itself after this time (as the daemon is set)' },
  ...commonOptions,
} as const;

/** Runs `boxkite create`. */
export const createCommand: Command = defineCommand({
  name: 'create',
  about: 'Makes a sandbox that stays until it is removed or its lifetime is over, and prints its id.',
  options,
  examples: [
    ['boxkite create --label build --copy .', 'with a copy of this directory'],
    ['id=$(boxkite create --workspace disk)', 'one whose files outlive its runner'],
    ['boxkite exec build -- make', 'then run something in it'],
  ],
  run: async (call) => {
    const { signal } = call.interrupts;
    const given = call.options;
    const workspace = given.text('workspace');
    if (workspace !== undefined && /^\d/.test(workspace))
      throw mistake(`--workspace is to be disk or tmpfs, not ${workspace}`, `Write --workspace-mb ${workspace}.`);
    const spec = {
      ...limitsOf(given),
      label: given.text('label'),
      workspace: given.choice('workspace', ['disk', 'tmpfs']),
      rootfs: given.text('rootfs'),
      workspace_mb: given.whole('workspace-mb'),
      inodes: given.whole('inodes'),
      sandbox_allowed_commands: await allowedCommands(given.text('allowed-commands')),
      lifetime_minutes: lifetime(given.whole('lifetime')),
    };
    const server = await call.server();
    const { id } = await server.create(spec, signal);
    const summary = call.json ? await server.sandboxes.get(id) : null;
    await call.printOnce(printable(id), summary, `the sandbox ${printable(id)} was made and stays`);
    return EXIT.ok;
  },
});

function lifetime(minutes: number | undefined): number | undefined {
  if (minutes === undefined || (minutes >= 1 && minutes <= maxLifetimeMinutes)) return minutes;
  throw mistake(`--lifetime is to be 1 to ${maxLifetimeMinutes} minutes`, 'Leave it out for the default.');
}
