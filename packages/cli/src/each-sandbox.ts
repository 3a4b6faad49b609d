/** Does the same to several sandboxes: one that fails doesn't keep the others from it. */

import type { Call } from './command.ts';
import { EXIT, exitStatusOf } from './exit-status.ts';
import { mapBounded } from './map-bounded.ts';
import type { OptionTable } from './options.ts';
import { errorBody } from './report-error.ts';
import { printable } from './text.ts';

const IN_FLIGHT = 16;

/**
 * Prints the id of each that it succeeded with; with `--json` an array of what `act` returned, or `{id, error}`. The exit
 * status is that of the first failure.
 */
export async function forEachSandbox(
  call: Call<OptionTable>,
  ids: readonly string[],
  act: (id: string) => Promise<object>,
): Promise<number> {
  let status: number = EXIT.ok;
  const results = await mapBounded(ids, IN_FLIGHT, async (id) => {
    try {
      const result = await act(id);
      if (!call.json) call.print(printable(id));
      return result;
    } catch (error) {
      // Nobody waits for the others, and each would fail alike.
      if (call.interruptedStatus !== null) throw error;
      if (status === EXIT.ok) status = exitStatusOf(error);
      call.complain(error);
      return { id, ...errorBody(error) };
    }
  });
  if (call.json) call.printJson(results);
  return status;
}
