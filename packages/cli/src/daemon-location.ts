/** Which daemon `serve`, `status` and `stop` are about. */
import { homedir } from 'node:os';
import type { CommandIo } from './io.ts';

/** Where this user's daemon lies, by the environment and `--data`. */
export function placeOptions(io: CommandIo, data: string | undefined) {
  return {
    uid: process.geteuid?.() ?? 0,
    home: io.env['HOME']?.startsWith('/') === true ? io.env['HOME'] : homedir(),
    stateHome: io.env['XDG_STATE_HOME'],
    runtimeDirectory: io.env['XDG_RUNTIME_DIR'],
    data,
  };
}

/** The option that all three have. */
export const dataOption = {
  data: { value: 'DIR', help: 'the data directory of the daemon (/var/lib/boxkite, or ~/.local/state/boxkite)' },
} as const;
