/** The user id of Node under a daemon of root. */
import { execFileSync } from 'node:child_process';
import { BoxkiteError } from '@boxkite/protocol';

/** An id that no user, group or sandbox of this machine has, by the runner, which knows them all. Errors: `runner_failed`. */
export function chooseServiceId(runner: string): number {
  try {
    const id = Number(execFileSync(runner, ['service-id'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }));
    if (Number.isInteger(id) && id > 0) return id;
    throw new TypeError(`${runner} service-id printed no id`);
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new BoxkiteError(
      'runner_failed',
      `no user id could be had for the service${said === '' ? '' : `: ${said}`}`,
      {
        cause: error,
      },
    );
  }
}
