/** Takes the place of `boxkite/local` in bundles for anything but Node, which must not contain it. */

import type { SandboxProvider } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** Always fails with `unsupported_platform`. */
export function createLocalProvider(_options?: object): SandboxProvider {
  throw new BoxkiteError(
    'unsupported_platform',
    'boxkite runs sandboxes on Linux, and this program is bundled for another platform',
    {
      hint: 'Pass a `provider`, or run this program by Node on Linux.',
    },
  );
}
