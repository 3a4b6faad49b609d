/** Options that say what a new sandbox is to be; `run` and `create` share them. */
import type { SandboxSpec } from '@boxkite/protocol';
import type { OptionValues } from './option-values.ts';
import type { OptionTable } from './options.ts';

/** Limits of the sandbox and what is copied into it. */
export const limitOptions = {
  copy: { value: 'DIR', help: 'a directory to copy into /workspace' },
  memory: { value: 'MB', help: 'memory of one command, enforced or refused (1024 where it can be enforced)' },
  pids: { value: 'N', help: 'processes and threads at once (256)' },
  cpus: { value: 'N', help: 'CPU rate in cores, enforced or refused (no limit)' },
} as const satisfies OptionTable;

/** What those options ask for. */
export function limitsOf(options: OptionValues<typeof limitOptions>): SandboxSpec {
  return {
    copy: options.text('copy'),
    memory_mb: options.whole('memory'),
    pids: options.whole('pids'),
    cpus: options.number('cpus'),
  };
}
